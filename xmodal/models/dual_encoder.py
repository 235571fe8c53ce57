"""Two towers, the similarity of their embeddings, and possibly a cross-encoder."""

import dataclasses
import itertools
from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from xmodal.core.config import lookup, read
from xmodal.core.errors import UserError
from xmodal.models.basics import ONE_CPU, Devices
from xmodal.models.cross_encoders import CrossEncoder, make_cross_encoder
from xmodal.models.tower import Tower, Tree, make_tower
from xmodal.similarity import Similarity, make_similarity
from xmodal.similarity.embedding import Embedding

MODALITIES = ("image", "text")
_SCORER = 16  # Follows the positions of the modalities and leaves room.


@dataclasses.dataclass(frozen=True)
class DualEncoder:
    """Towers that embed into one space, and the similarity of that space.

    Parameters are a dict with one entry per tower, `similarity` if that has parameters, and
    `cross_encoder` if there is one; the state has one entry per tower.

    Attributes:
      towers: keyed by "image" and "text"; one may be missing.
      similarity: similarity of two embeddings.
      cross_encoder: scores pairs from the features of both towers, which embeddings then carry.
      shared: see `ModelConfig`.
    """

    towers: Mapping[str, Tower]
    similarity: Similarity
    cross_encoder: CrossEncoder | None = None
    shared: tuple[str, ...] = ()

    @property
    def embeds(self) -> bool:
        """Whether items have vectors; without them, the cross-encoder alone compares items."""
        return all(tower.embeds for tower in self.towers.values())

    def init(
        self, key: jax.Array, example_inputs: Mapping[str, Mapping[str, Any]]
    ) -> tuple[Tree, Tree]:
        """Returns fresh `(params, model_state)`.

        Args:
          key: typed key; a tower's parameters depend only on the key and the tower's name.
          example_inputs: inputs of each tower as in `embed`, of any batch size.
        """
        params, model_state = {}, {}
        for name, tower in self.towers.items():
            tower_key = jax.random.fold_in(key, MODALITIES.index(name))
            params[name], model_state[name] = tower.init(tower_key, example_inputs[name])
        for path, modality in itertools.product(self.shared, MODALITIES):
            if not _find(params[modality], path):
                raise UserError(
                    f"config.model.shared names {path!r}, but {modality} has no such parameters."
                )
        params = self.share(params)

        def embed(modality: str, inputs: Mapping[str, Any]) -> Embedding:
            return self.embed(modality, params, model_state, inputs)[0]

        items = []
        if self.similarity.module is not None:
            items = [
                jax.eval_shape(partial(embed, name), example_inputs[name]) for name in MODALITIES
            ]
        if similarity := self.similarity.init(jax.random.fold_in(key, len(MODALITIES)), *items):
            params["similarity"] = similarity
        if self.cross_encoder is not None:
            features = {}
            for name in MODALITIES:
                one = {column: x[:1] for column, x in example_inputs[name].items()}
                shapes = jax.eval_shape(partial(embed, name), one).extras["features"]
                features[name] = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
            scorer_key = jax.random.fold_in(key, _SCORER)
            params["cross_encoder"] = self.cross_encoder.init(scorer_key, params, **features)
        return params, model_state

    def embed(
        self,
        modality: str,
        params: Tree,
        model_state: Tree,
        inputs: Mapping[str, Any],
        *,
        train: bool = False,
        frozen: Collection[str] = (),
        key: jax.Array | None = None,
    ) -> tuple[Embedding, Tree]:
        """Embeds `inputs` with one tower.

        Args:
          modality: "image" or "text".
          params: parameters of all towers.
          model_state: state of all towers.
          inputs: columns of a batch: `image`, uint8 [B, H, W, 3] or features [B, F] or [B, R, F],
            with `image_mask` bool [B, R] if the number of regions varies; or `text_ids` and
            `text_mask`, int [N, T]; see `Tower.frozen_features` for others.
          train: see `Tower.apply`.
          frozen: see `Tower.apply`.
          key: see `Tower.apply`.

        Returns:
          The embedding, and the new state of only this tower.
        """
        tower = lookup("the towers of this model", modality, self.towers)
        # The image tower's parameters get the gradients of both.
        params = self.share(params)
        with jax.named_scope(modality):
            return tower.apply(
                params.get(modality, {}),
                model_state[modality],
                inputs,
                train=train,
                frozen=frozen,
                key=key,
            )

    def attend(
        self, modality: str, params: Tree, model_state: Tree, inputs: Mapping[str, Any]
    ) -> jax.Array | None:
        """Returns the weights of the tokens of one modality, see `Tower.attend`."""
        own = self.share(params).get(modality, {})
        return self.towers[modality].attend(own, model_state[modality], inputs)

    def share(self, params: Tree) -> Tree:
        """Returns parameters in which the text tower's `shared` ones equal the image tower's.

        Where one of the two is missing, as among a run's trained parameters if it freezes the
        shared ones, nothing changes.
        """
        shared = dict(params)
        for path in self.shared:
            found, replaced = (_find(shared.get(modality, {}), path) for modality in MODALITIES)
            if found and replaced:
                shared["text"] = _replace(shared["text"], path.split("/"), found)
        return shared


def _find(tree: Tree, path: str) -> Tree:
    """Returns the part of a tree at a path; {} if there is none."""
    for name in path.split("/"):
        tree = tree.get(name, {})
    return tree


def _replace(tree: Tree, path: list[str], part: Tree) -> Tree:
    name, *rest = path
    return tree | {name: _replace(tree[name], rest, part) if rest else part}


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """Settings of a dual encoder.

    Attributes:
      image: see `tower.TowerConfig`, or None.
      text: see `tower.TowerConfig`, or None.
      similarity: `name` and keywords, see `xmodal.similarity.make_similarity`.
      cross_encoder: `name`, a key of `CROSS_ENCODERS`, and its keywords; None for none.
      shared: paths of parts of a tower, such as `head/graph`, whose parameters both towers have in
        common. Each tower keeps a copy, so that it works alone; the image tower's is trained.
    """

    image: Mapping[str, Any] | None = None
    text: Mapping[str, Any] | None = None
    similarity: Mapping[str, Any] = dataclasses.field(default_factory=lambda: {"name": "dot"})
    cross_encoder: Mapping[str, Any] | None = None
    shared: tuple[str, ...] = ()


def make_dual_encoder(config: Mapping[str, Any], devices: Devices = ONE_CPU) -> DualEncoder:
    """Returns the dual encoder that the `model` section of a config describes.

    Args:
      config: see `ModelConfig`; a mapping or an `ml_collections.ConfigDict`.
      devices: devices that the batch is split over; by default one CPU.
    """
    model = read(ModelConfig, "config.model", config)
    modalities = {"image": model.image, "text": model.text}
    towers = {
        modality: make_tower(f"config.model.{modality}", section, devices)
        for modality, section in modalities.items()
        if section is not None
    }
    similarity = make_similarity(model.similarity)
    if not towers:
        raise UserError(
            "config.model has no tower: set config.model.image or .text, or both, or name a "
            "converted model in config.init_from.model."
        )
    of_both = (model.cross_encoder, similarity.module, model.shared)
    names = ("cross_encoder", "similarity", "shared")
    needing = [name for name, value in zip(names, of_both, strict=True) if value]
    if needing and len(towers) < len(MODALITIES):
        raise UserError(
            f"config.model.{needing[0]} needs an image and a text tower, but config.model has only "
            f"the modality {next(iter(towers))!r}; add the other modality, or leave out "
            f"{needing[0]}."
        )
    scorer = None
    if model.cross_encoder is not None:
        encoder = towers["text"].module.encoder
        scorer = make_cross_encoder("config.model.cross_encoder", model.cross_encoder, encoder)
        kept = {"image": "tokens", "text": "ids" if scorer.reads_ids else "tokens"}
        towers = {modality: tower.keeping(kept[modality]) for modality, tower in towers.items()}
    embedding = [tower.embeds for tower in towers.values()]
    is_plain = similarity.name == "dot" and not similarity.parameters
    if not (all(embedding) or (scorer is not None and not any(embedding) and is_plain)):
        raise UserError(
            "A head of config.model is 'none', so items have no vectors to compare: choose a head, "
            "or set both heads to 'none', config.model.cross_encoder, and config.model.similarity="
            "{'name': 'dot'}."
        )
    return DualEncoder(towers, similarity, scorer, tuple(model.shared))
