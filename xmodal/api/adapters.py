"""Models as other libraries take them: tasks of mteb, evaluators of sentence-transformers."""

import dataclasses
import os
import types
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from xmodal.api.model import Model
from xmodal.core.errors import UserError

_BLOCK = 256  # Pairs that are compared at once.


@dataclasses.dataclass(frozen=True)
class _Adapter:
    """Embeds lists of items, and compares embeddings by the model's own similarity.

    Attributes:
      model: a model from `xmodal.load` with one vector per item.
    """

    model: Model

    def similarity(self, left: Any, right: Any) -> Any:
        """Compares embeddings [N, D] and [M, D]; returns a float32 tensor [N, M]."""
        import torch

        return torch.from_numpy(self.model.similarity(np.asarray(left), np.asarray(right)).copy())

    def similarity_pairwise(self, left: Any, right: Any) -> Any:
        """Compares embeddings [N, D] row by row; returns a float32 tensor [N]."""
        import torch

        rows = [slice(start, start + _BLOCK) for start in range(0, len(left), _BLOCK)]
        return torch.cat([self.similarity(left[each], right[each]).diagonal() for each in rows])

    def _embed(self, items: Sequence[Any]) -> np.ndarray:
        """Float32 vectors [N, D] of texts or pictures."""
        if isinstance(items[0], str):
            return np.asarray(self.model.embed_texts(items), np.float32)
        return np.asarray(self.model.embed_images(items, upright=False), np.float32)


class MtebModel(_Adapter):
    """A model for `mteb.evaluate(MtebModel(model), tasks)`: tasks of texts, images, or both.

    It has the interface `mteb.models.EncoderProtocol`.
    """

    @property
    def mteb_model_meta(self) -> Any:
        """Name, modalities and similarity; the revision is the hash of the weights."""
        from mteb.models.model_meta import ModelMeta, ScoringFunction

        name, similarity = self.model.source, self.model.similarity_name
        facts = {
            "name": f"xmodal/{os.path.basename(os.path.normpath(name))}",
            "revision": self.model.hash_weights(),
            "modalities": [*self.model.modalities],
            "similarity_fn_name": ScoringFunction._value2member_map_.get(similarity, "custom"),
        }
        return ModelMeta.create_empty(facts)

    def encode(self, inputs: Iterable[Mapping[str, Any]], **_: Any) -> np.ndarray:
        """Embeds items.

        Args:
          inputs: batches with lists `text`, `image`, or both.

        Returns:
          float32 [N, D]; sums of both modalities for items with both, as mteb's own CLIP has them.
        """
        parts = [
            sum(self._embed(batch[name]) for name in ("text", "image") if name in batch)
            for batch in inputs
        ]
        return np.concatenate(parts)


class SentenceTransformerModel(_Adapter):
    """A model for the evaluators of sentence-transformers, `evaluator(ADAPTER)`."""

    # Takes the metrics of an evaluator, and drops them.
    model_card_data = types.SimpleNamespace(set_evaluation_metrics=lambda *_: None)

    @property
    def similarity_fn_name(self) -> str:
        """The similarity, which names the metrics."""
        return self.model.similarity_name

    def encode(self, sentences: str | Sequence[Any], **options: Any) -> Any:
        """Embeds texts or PIL images; returns float32 [N, D], or [D] for a single text.

        Args:
          sentences: texts or images.
          **options: those of `SentenceTransformer.encode`: `convert_to_numpy` and
            `convert_to_tensor` choose an array or a tensor, `batch_size` and `show_progress_bar`
            are not used, others must be unset.
        """
        import torch

        as_tensor = options.pop("convert_to_tensor", False)
        as_array = options.pop("convert_to_numpy", True) and not as_tensor
        known = ("batch_size", "show_progress_bar")
        if unused := [key for key, value in options.items() if value and key not in known]:
            raise UserError(f"{unused} of encode cannot be used with this model: unset them.")
        if isinstance(sentences, str):
            return self.encode([sentences], convert_to_numpy=as_array)[0]
        found = self._embed(list(sentences))
        return found if as_array else torch.from_numpy(found)

    encode_query = encode_document = encode
