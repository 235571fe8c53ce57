"""Two towers by name; the only class the rest of the house sees."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax

from xmodal.config import UserError, call, lookup
from xmodal.models import (
    bag_of_words,
    efficientnet,
    inception_v3,
    mobilenet_v2,
    precomputed,
    resnet,
    text_tower,
)
from xmodal.models.embedding import Embedding
from xmodal.models.tower import ONE_CPU, Devices, Tower, Tree

TOWERS: Mapping[str, Callable[..., Tower]] = {
    "bag_of_words": bag_of_words.make_tower,
    "bert": text_tower.make_tower,
    "efficientnet": efficientnet.make_tower,
    "inception_v3": inception_v3.make_tower,
    "mobilenet_v2": mobilenet_v2.make_tower,
    "precomputed": precomputed.make_tower,
    "resnet": resnet.make_tower,
}

SIDES = ("image", "text")


@dataclasses.dataclass(frozen=True)
class DualEncoder:
    """Towers that embed into one space, and the similarity of that space.

    Parameters and state are dicts with one entry per tower.

    Attributes:
      towers: keyed by "image" and "text"; one may be missing.
      similarity: name of the similarity, which losses and evaluation look up.
    """

    towers: Mapping[str, Tower]
    similarity: str

    def init(self, key: jax.Array, example_inputs: Mapping[str, Any]) -> tuple[Tree, Tree]:
        """Fresh `(params, model_state)`.

        Args:
          key: typed key; a tower's parameters depend on it and on the tower's name alone.
          example_inputs: inputs of each tower as in `embed`, of any batch size.
        """
        params, model_state = {}, {}
        for name, tower in self.towers.items():
            tower_key = jax.random.fold_in(key, SIDES.index(name))
            params[name], model_state[name] = tower.init(tower_key, example_inputs[name])
        return params, model_state

    def embed(
        self,
        name: str,
        params: Tree,
        model_state: Tree,
        inputs: Any,
        *,
        train: bool = False,
        key: jax.Array | None = None,
    ) -> tuple[Embedding, Tree]:
        """Embeds `inputs` with one tower.

        Args:
          name: "image" or "text".
          params: parameters of all towers.
          model_state: state of all towers.
          inputs: uint8 images [B, H, W, 3], features [B, F] or [B, R, F], or a dict of int
            `text_ids` and `text_mask` [N, T].
          train: see `Tower.apply`.
          key: see `Tower.apply`.

        Returns:
          The embedding, and the new state of this tower alone.
        """
        tower = lookup("the towers of this model", name, self.towers)
        return tower.apply(params[name], model_state[name], inputs, train=train, key=key)


def make_dual_encoder(config: Mapping[str, Any], devices: Devices = ONE_CPU) -> DualEncoder:
    """Builds the towers that the `model` part of a config describes.

    Args:
      config: `image` and `text`, each a dict with the `name` of a tower and its keywords, or
        None; `similarity`.
      devices: that the batch is split over; one CPU if not given.
    """
    return call("config.model", _make_dual_encoder, config, devices=devices)


def _make_dual_encoder(
    *,
    image: Mapping[str, Any] | None = None,
    text: Mapping[str, Any] | None = None,
    similarity: str = "dot",
    devices: Devices,
) -> DualEncoder:
    towers = {}
    for side, config in zip(SIDES, (image, text), strict=True):
        if config is None:
            continue
        keywords = dict(config.items())
        where = f"config.model.{side}"
        if "name" not in keywords:
            raise UserError(f"{where} lacks 'name'; known: {sorted(TOWERS)}.")
        factory = lookup(f"{where}.name", keywords.pop("name"), TOWERS)
        towers[side] = call(where, factory, keywords, devices=devices)
    if not towers:
        raise UserError("config.model has no tower: set config.model.image or .text, or both.")
    return DualEncoder(towers, similarity)
