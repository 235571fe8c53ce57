"""A third part of a model, which reads an image and a text together, wrapped in plain functions."""

import dataclasses
from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from xmodal.core.tree_paths import leaves_by_path, unflatten
from xmodal.models.basics import Mode, Tree
from xmodal.models.features import Features

# Logits [..., 2] of "no match" and "match", or the only one, [..., 1] -> scores [...].
SCORES: dict[str, Callable[[jax.Array], jax.Array]] = {
    "log_odds": lambda logits: logits[..., 1] - logits[..., 0],
    "logit": lambda logits: logits[..., -1],
}


@dataclasses.dataclass(frozen=True)
class CrossEncoder:
    """A module that scores pairs of an image and a text, given the features of both towers.

    Whatever depends on one item alone is computed once per item, by `prepare`; `logits` computes
    the rest for every pair. Pairs are grouped by image, so that all texts of an image share its
    prepared arrays without copies.

    Attributes:
      name: key of `CROSS_ENCODERS`.
      score: key of `SCORES`, the definition of the score that ranks pairs.
      module: has the methods `image` and `text` (features, mode) -> tree of arrays with items
        first, and is called with `(image tree [I, ...], text tree [I, J, ...], mode)` -> float32
        logits [I, J, 2] or [I, J, 1]; `pair_bytes` estimates the memory of a pair.
      reads_ids: whether the features of texts are the ids themselves, as tokens int32 [N, T, 1].
      shared: parameters of the text encoder -> those of the module that are the same arrays, by
        path; None if all are its own.
    """

    name: str
    score: str
    module: nn.Module
    reads_ids: bool = False
    shared: Callable[[Tree], Tree] | None = None

    def init(self, key: jax.Array, params: Tree, image: Features, text: Features) -> Tree:
        """Returns fresh parameters of its own.

        Args:
          key: typed key.
          params: parameters of the towers.
          image: features of an image; only shapes and dtypes [1, T, W] matter.
          text: features of a text.
        """

        def run(module: nn.Module, image: Features, text: Features) -> jax.Array:
            found: Any = module
            images, texts = found.image(image, Mode.EVALUATE), found.text(text, Mode.EVALUATE)
            texts = jax.tree.map(lambda x: x[:, None], texts)
            return found(images, texts, Mode.EVALUATE)

        fresh = dict(nn.init(run, self.module)(key, image, text)["params"])
        own, shared = leaves_by_path(fresh), self._shared(params)
        return unflatten({path: leaf for path, leaf in own.items() if path not in shared})

    def _shared(self, params: Tree) -> Tree:
        return {} if self.shared is None else self.shared(params["text"]["encoder"])

    def complete(self, params: Tree) -> Tree:
        """Returns the parameters of the module, with those that it shares."""
        own = params["cross_encoder"]
        if shared := self._shared(params):
            own = unflatten({**shared, **leaves_by_path(own)})
        return own

    def prepare(
        self,
        modality: str,
        params: Tree,
        features: Features,
        *,
        mode: Mode = Mode.EVALUATE,
        key: jax.Array | None = None,
    ) -> Any:
        """Returns the arrays that depend on the items of one modality alone, a tree, items first.

        Args:
          modality: "image" or "text".
          params: parameters of the whole model, with those of `init` as `cross_encoder`.
          features: the features of N items.
          mode: see `Mode`.
          key: seeds dropout; needed in training.
        """
        rngs = {"dropout": key} if key is not None and mode.drops else {}
        return self.module.apply(
            {"params": self.complete(params)}, features, mode, rngs=rngs, method=modality
        )

    def logits(
        self,
        params: Tree,
        images: Any,
        texts: Any,
        *,
        mode: Mode = Mode.EVALUATE,
        key: jax.Array | None = None,
    ) -> jax.Array:
        """Returns the logits of "no match" and "match", float32 [I, J, 2], or one, [I, J, 1].

        Args:
          params: parameters of the whole model, with those of `init` as `cross_encoder`.
          images: prepared images, arrays [I, ...].
          texts: prepared texts, arrays [I, J, ...]; text j of row i is paired with image i.
          mode: see `Mode`.
          key: seeds dropout; needed in training.
        """
        rngs = {"dropout": key} if key is not None and mode.drops else {}
        found: Any = self.module.apply(
            {"params": self.complete(params)}, images, texts, mode, rngs=rngs
        )
        return found

    def scores(self, params: Tree, images: Any, texts: Any) -> jax.Array:
        """Returns the scores to rank by, float32 [I, J], by the definition `score`."""
        return SCORES[self.score](self.logits(params, images, texts).astype(jnp.float32))

    def pair_bytes(self, image_tokens: int, text_tokens: int) -> int:
        """Returns roughly how much memory the scoring of one pair needs, in bytes."""
        module: Any = self.module
        return module.pair_bytes(image_tokens, text_tokens)
