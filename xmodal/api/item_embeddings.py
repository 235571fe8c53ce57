"""Items with more than one vector each, or whose modality counts."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from xmodal.core.errors import UserError
from xmodal.evals.scores.ragged_tokens import RaggedTokens
from xmodal.evals.scores.sources import Embeddings


@dataclasses.dataclass(frozen=True)
class ItemEmbeddings:
    """Items of a model with several vectors per item, with an uncertainty, or whose modality
    counts.

    Indexing it like an array gives `ItemEmbeddings` of these items; `np.asarray` gives `vector`.

    Attributes:
      vector: float32 [N, K, D]; [N, D] for a model with one vector per item.
      log_sigma: float32 [N, D], the logarithm of the standard deviation of every item's
        distribution; None for a model without it.
      modality: "image" or "text", which a similarity that is not symmetric needs (`order`); "" if
        unknown.
      tokens: tokens of the items, of a model whose similarity compares them; else None.
    """

    vector: np.ndarray
    log_sigma: np.ndarray | None = None
    modality: str = ""
    tokens: RaggedTokens | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Of `vector`."""
        return self.vector.shape

    def __len__(self) -> int:
        return len(self.vector)

    def __getitem__(self, items: Any) -> "ItemEmbeddings":
        sigma = None if self.log_sigma is None else self.log_sigma[items]
        tokens = self.tokens
        if tokens is not None:
            tokens = tokens[np.atleast_1d(np.arange(len(self))[items])]
        return ItemEmbeddings(self.vector[items], sigma, self.modality, tokens)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.vector, dtype, copy=copy)


def join(
    parts: Sequence[Embeddings], modality: str, *, keep_modality: bool = False
) -> np.ndarray | ItemEmbeddings:
    """Returns an array if every item has just one vector, else `ItemEmbeddings`.

    Args:
      parts: embeddings of consecutive items.
      modality: "image" or "text".
      keep_modality: whether the modality counts, so that an array does not suffice.
    """
    vector = np.concatenate([each.vectors(modality) for each in parts])
    sigmas = [each.log_sigma[modality] for each in parts if modality in each.log_sigma]
    tokens = [each.tokens[modality] for each in parts if modality in each.tokens]
    if vector.ndim == 2 and not sigmas and not keep_modality:
        return vector
    sigma = np.concatenate(sigmas) if sigmas else None
    return ItemEmbeddings(vector, sigma, modality, RaggedTokens.join(tokens) if tokens else None)


def tokens_of(items: Any) -> RaggedTokens:
    """Returns the tokens of embeddings."""
    if getattr(items, "tokens", None) is None:
        raise UserError(
            "This model compares tokens, but these are only vectors: pass what embed_images and "
            "embed_texts return."
        )
    return items.tokens
