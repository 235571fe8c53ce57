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
from xmodal.evals.scores.sources import Provider, refuse_field, with_similarity

if TYPE_CHECKING:
    from xmodal.data import EvalSplit


class FunctionProvider(Provider):
    """A model of embedding functions by side."""

    def __init__(
        self,
        functions: Mapping[str, Callable[[list[Any]], Any]],
        batch_size: int | None,
        similarity: str,
    ) -> None:
        size = 64 if batch_size is None else batch_size
        if not isinstance(size, int | np.integer) or size < 1:
            raise UserError(f"batch_size={size!r}; it must be an integer of at least 1.")
        self.place, self.embeds = "the model", frozenset(functions)
        self._functions, self._batch_size, self._similarity = functions, size, similarity
        self._found: dict[int, tuple[Any, Embeddings]] = {}

    def items(
        self,
        split: "EvalSplit",
        *,
        similarity: Mapping[str, Any] | None = None,
        batch_size: int = 256,
    ) -> Embeddings:
        """See `Provider`; calls the functions for every image and caption, once per split."""
        del batch_size
        refuse_field(self.place, similarity)
        if id(split) not in self._found:
            self._found[id(split)] = split, self._embed_split(split)
        return with_similarity(self._found[id(split)][1], similarity)

    def embed(
        self, side: str, given: Sequence[Any], *, similarity: Mapping[str, Any] | None = None
    ) -> np.ndarray:
        """See `Provider`."""
        refuse_field(self.place, similarity)
        return self._embed(side, len(given), lambda rows: [given[row] for row in rows])

    def _embed_split(self, split: "EvalSplit") -> Embeddings:
        ids = {"image": split.image_ids, "text": split.caption_ids}
        read: dict[str, Callable[[np.ndarray], Any]] = {
            "image": split.pictures,
            "text": lambda rows: [split.caption_texts[row] for row in rows],
        }
        sides = [side for side in self._functions if len(ids[side])]
        vectors = {side: self._embed(side, len(ids[side]), read[side]) for side in sides}
        shapes = {side: list(found.shape[1:]) for side, found in vectors.items()}
        if len({tuple(shape) for shape in shapes.values()}) > 1:
            raise UserError(
                f"embed_images returned vectors of shape {shapes['image']} and embed_texts of "
                f"shape {shapes['text']}; the shapes must be equal."
            )
        ids = {side: np.asarray(ids[side], np.int64) for side in vectors}
        return Embeddings(
            place=f"{split.name} {split.split}",
            image_ids=ids.get("image"),
            images=vectors.get("image"),
            caption_ids=ids.get("text"),
            captions=vectors.get("text"),
            similarity=self._similarity,
        )

    def _embed(self, side: str, count: int, read: Callable[[np.ndarray], Any]) -> np.ndarray:
        """All vectors of one side, [N, ...]."""
        name, parts = f"embed_{side}s", list[np.ndarray]()
        with progress(f"Calling {name} for {count:,} items", count) as advance:
            for start in range(0, count, self._batch_size):
                found = read(np.arange(start, min(start + self._batch_size, count)))
                given = [_open(each) for each in found] if side == "image" else list(found)
                result = self._functions[side](given)
                try:
                    part = _as_array(result)
                except (TypeError, ValueError, RuntimeError) as error:
                    reason = str(error).rstrip(".")
                    raise UserError(
                        f"{name} returned no array of numbers: {reason} (items from {start:,} on)."
                    ) from error
                _check_part(part, given, start, parts[0].shape[1:] if parts else None, name)
                parts.append(part)
                advance(len(given))
        return np.concatenate(parts)


def _open(encoded: bytes) -> PIL.Image.Image:
    return PIL.Image.fromarray(decode_image(encoded))


def _as_array(found: Any) -> np.ndarray:
    """Float64 or, for any other type, float32."""
    array = to_numpy(found)
    if np.iscomplexobj(array):  # Its imaginary part would be dropped.
        raise ValueError("its numbers are complex")
    return array if array.dtype == np.float64 else np.asarray(array, np.float32)


def _check_part(
    part: np.ndarray, given: Sequence[Any], start: int, first: tuple[int, ...] | None, name: str
) -> None:
    """Raises an error if the shape of a result differs from the first, or it is not finite."""
    items = len(given)
    if part.ndim not in (2, 3) or len(part) != items or 0 in part.shape:
        raise UserError(
            f"{name} returned the shape {list(part.shape)} for {items} items; it must be "
            f"[{items}, D]."
        )
    if first is not None and part.shape[1:] != first:
        raise UserError(
            f"{name} returned vectors of shape {list(part.shape[1:])} after vectors of shape "
            f"{list(first)}; all must be equal."
        )
    with np.errstate(over="ignore"):
        finite = np.isfinite(np.asarray(part, np.float32)).reshape(items, -1).all(axis=1)
    if not finite.all():
        row = int(finite.argmin())
        raise UserError(
            f"{name} returned {items - finite.sum()} of {items} vectors that are not finite in "
            f"float32; the first is that of item {start + row:,}, {given[row]!r:.80}."
        )
