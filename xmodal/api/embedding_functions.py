"""A model of any framework as two embedding functions."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import PIL.Image

from xmodal.core.errors import UserError
from xmodal.core.progress import progress
from xmodal.data.pixels.images import decode_image
from xmodal.evals import Embeddings
from xmodal.evals.scores.arrays import to_numpy
from xmodal.evals.scores.score_rows import count_not_finite
from xmodal.evals.scores.sources import ModelAdapter, refuse_field, with_similarity

if TYPE_CHECKING:
    from xmodal.data import EvalSplit


class FunctionAdapter(ModelAdapter):
    """A model of embedding functions by modality."""

    def __init__(
        self,
        functions: Mapping[str, Callable[[list[Any]], Any]],
        batch_size: int,
        similarity: str,
    ) -> None:
        self.place = "the model"
        self._functions, self._batch_size, self._similarity = functions, batch_size, similarity
        self._found: dict[int, tuple[Any, Embeddings]] = {}

    def items(
        self,
        split: "EvalSplit",
        *,
        similarity: Mapping[str, Any] | None = None,
        batch_size: int = 256,
    ) -> Embeddings:
        """See `ModelAdapter`; calls the functions for every image and caption, once per split."""
        refuse_field(self.place, similarity)
        if id(split) not in self._found:
            self._found[id(split)] = split, self._embed_split(split)
        return with_similarity(self._found[id(split)][1], similarity)

    def embed(
        self, modality: str, given: Sequence[Any], *, similarity: Mapping[str, Any] | None = None
    ) -> np.ndarray:
        """See `ModelAdapter`."""
        refuse_field(self.place, similarity)
        return self._embed(modality, len(given), lambda rows: [given[row] for row in rows])

    def _embed_split(self, split: "EvalSplit") -> Embeddings:
        images = captions = None
        if "image" in self._functions and len(split.image_ids):
            images = self._embed("image", len(split.image_ids), split.pictures)
        if "text" in self._functions and len(split.caption_ids):
            texts = split.caption_texts
            captions = self._embed("text", len(texts), lambda rows: [texts[row] for row in rows])
        if images is not None and captions is not None and images.shape[1:] != captions.shape[1:]:
            raise UserError(
                f"embed_images returned vectors of shape {list(images.shape[1:])} and embed_texts "
                f"of shape {list(captions.shape[1:])}; the shapes must be equal."
            )
        return Embeddings(
            place=f"{split.name} {split.split}",
            image_ids=None if images is None else np.asarray(split.image_ids, np.int64),
            images=images,
            caption_ids=None if captions is None else np.asarray(split.caption_ids, np.int64),
            captions=captions,
            similarity=self._similarity,
        )

    def _embed(self, modality: str, count: int, read: Callable[[np.ndarray], Any]) -> np.ndarray:
        """All vectors of one modality, [N, ...]."""
        name, parts = f"embed_{modality}s", list[np.ndarray]()
        with progress(f"Calling {name} for {count:,} items", count) as advance:
            for start in range(0, count, self._batch_size):
                found = read(np.arange(start, min(start + self._batch_size, count)))
                given = [_open(each) for each in found] if modality == "image" else list(found)
                parts.append(_read(name, self._functions[modality](given), len(given)))
                advance(len(given))
        return np.concatenate(parts)


def _open(encoded: bytes) -> PIL.Image.Image:
    return PIL.Image.fromarray(decode_image(encoded))


def _read(name: str, found: Any, count: int) -> np.ndarray:
    """Returns `count` finite vectors, float64 or, for any other type of a result, float32."""
    try:
        array = to_numpy(found)
        part = array if array.dtype == np.float64 else np.asarray(array, np.float32)
    except (TypeError, ValueError, RuntimeError) as error:
        raise UserError(
            f"{name} returned no array of numbers: {str(error).rstrip('.')}."
        ) from error
    if part.ndim not in (2, 3) or len(part) != count:
        raise UserError(
            f"{name} returned the shape {list(part.shape)} for {count} items; it must be "
            f"[{count}, D] or [{count}, K, D]."
        )
    with np.errstate(over="ignore"):
        bad = count_not_finite(part.astype(np.float32))
    if bad:
        raise UserError(f"{name} returned {bad} of {count} vectors that are not finite in float32.")
    return part
