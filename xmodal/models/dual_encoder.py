"""Two towers, the similarity of their embeddings, and possibly a pair scorer."""

import dataclasses
import functools
from collections.abc import Collection, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from xmodal.base.config import UserError, lookup, read
from xmodal.models.devices import ONE_CPU, Devices
from xmodal.models.pair_scorers import PairScorer, make_pair_scorer
from xmodal.models.tower import Tower, Tree, make_tower
from xmodal.similarity import Similarity, make_similarity
from xmodal.similarity.embedding import Embedding

SIDES = ("image", "text")
_SCORER = 16  # Follows the positions of the sides and leaves room.


@dataclasses.dataclass(frozen=True)
class DualEncoder:
    """Towers that embed into one space, and the similarity of that space.

    Parameters are a dict with one entry per tower, `similarity` if that has parameters, and
    `pair_scorer` if there is one; the state has one entry per tower.

    Attributes:
      towers: keyed by "image" and "text"; one may be missing.
      similarity: similarity of two embeddings.
      pair_scorer: scores pairs from the features of both towers, which embeddings then carry.
      shared: see `ModelConfig`.
    """

    towers: Mapping[str, Tower]
    similarity: Similarity
    pair_scorer: PairScorer | None = None
    shared: tuple[str, ...] = ()

    @property
    def embeds(self) -> bool:
        """Whether items have vectors; without them, the pair scorer alone compares items."""
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
            tower_key = jax.random.fold_in(key, SIDES.index(name))
            params[name], model_state[name] = tower.init(tower_key, example_inputs[name])
        self._check_shared(params)
        params = self.share(params)
        if similarity := self._init_similarity(key, params, model_state, example_inputs):
            params["similarity"] = similarity
        if self.pair_scorer is not None:
            embed = functools.partial(self.embed, params=params, model_state=model_state)
            features = {}
            for name in SIDES:
                one = {column: x[:1] for column, x in example_inputs[name].items()}
                embedding, _ = jax.eval_shape(functools.partial(embed, name), inputs=one)
                features[name] = embedding.extras["features"]
            zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), features)
            scorer_key = jax.random.fold_in(key, _SCORER)
            params["pair_scorer"] = self.pair_scorer.init(scorer_key, params, **zeros)
        return params, model_state

    def _init_similarity(
        self, key: jax.Array, params: Tree, model_state: Tree, inputs: Mapping[str, Any]
    ) -> Tree:
        if self.similarity.module is None:
            return self.similarity.init()

        def embed(side: str) -> Embedding:
            return self.embed(side, params, model_state, inputs[side])[0]

        items = [jax.eval_shape(functools.partial(embed, side)) for side in SIDES]
        return self.similarity.init(jax.random.fold_in(key, len(SIDES)), *items)

    def embed(
        self,
        side: str,
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
          side: "image" or "text".
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
        tower = lookup("the towers of this model", side, self.towers)
        # The image side's parameters get the gradients of both.
        params = self.share(params)
        with jax.named_scope(side):
            return tower.apply(
                params.get(side, {}), model_state[side], inputs, train=train, frozen=frozen, key=key
            )

    def attend(
        self, side: str, params: Tree, model_state: Tree, inputs: Mapping[str, Any]
    ) -> jax.Array | None:
        """Returns the weights of the tokens of one side, see `Tower.attend`."""
        own = self.share(params).get(side, {})
        return self.towers[side].attend(own, model_state[side], inputs)

    def share(self, params: Tree) -> Tree:
        """Returns parameters in which the text tower's `shared` ones equal the image tower's.

        Where one of the two is missing, as among a run's trained parameters if it freezes the
        shared ones, nothing changes.
        """
        shared = dict(params)
        for path in self.shared:
            found, replaced = (_find(shared.get(side, {}), path) for side in SIDES)
            if found and replaced:
                shared["text"] = _replace(shared["text"], path.split("/"), found)
        return shared

    def _check_shared(self, params: Tree) -> None:
        for path in self.shared:
            for side in SIDES:
                if not _find(params[side], path):
                    raise UserError(
                        f"config.model.shared names {path!r}, but {side} has no such parameters."
                    )


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
      image: see `tower.SideConfig`, or None.
      text: see `tower.SideConfig`, or None.
      similarity: `name` and keywords, see `xmodal.similarity.make_similarity`.
      pair_scorer: `name`, a key of `PAIR_SCORERS`, and its keywords; None for none.
      shared: paths of parts of a tower, such as `head/graph`, whose parameters both towers have in
        common. Each tower keeps a copy, so that it works alone; the image tower's is trained.
    """

    image: Mapping[str, Any] | None = None
    text: Mapping[str, Any] | None = None
    similarity: Mapping[str, Any] = dataclasses.field(default_factory=lambda: {"name": "dot"})
    pair_scorer: Mapping[str, Any] | None = None
    shared: tuple[str, ...] = ()


def make_dual_encoder(config: Mapping[str, Any], devices: Devices = ONE_CPU) -> DualEncoder:
    """Returns the dual encoder that the `model` section of a config describes.

    Args:
      config: see `ModelConfig`; a mapping or an `ml_collections.ConfigDict`.
      devices: devices that the batch is split over; by default one CPU.

    Raises:
      UserError: a name or keyword is missing or unknown, a value is out of range, or there is no
        tower.
    """
    model = read(ModelConfig, "config.model", config)
    sides = {"image": model.image, "text": model.text}
    towers = {
        side: make_tower(f"config.model.{side}", section, devices)
        for side, section in sides.items()
        if section is not None
    }
    if not towers:
        raise UserError(
            "config.model has no tower: set config.model.image or .text, or both, or name a "
            "converted model in config.init_from.model."
        )
    scorer = None
    if model.pair_scorer is not None:
        if len(towers) < len(SIDES):
            raise UserError(
                "config.model.pair_scorer reads an image and a text, but config.model has only "
                f"the side {next(iter(towers))!r}; add the other one, or set it to None."
            )
        encoder = towers["text"].module.encoder
        scorer = make_pair_scorer("config.model.pair_scorer", model.pair_scorer, encoder)
        kept = {"image": "tokens", "text": "ids" if scorer.reads_ids else "tokens"}
        towers = {side: tower.keeping(kept[side]) for side, tower in towers.items()}
    similarity = make_similarity(model.similarity)
    _check_vectors(towers, scorer, similarity)
    if similarity.module is not None and len(towers) < len(SIDES):
        raise UserError(
            f"config.model.similarity {similarity.name!r} compares images with texts, but the "
            f"model has only the side {next(iter(towers))!r}."
        )
    if model.shared and len(towers) < len(SIDES):
        raise UserError(
            f"config.model.shared={list(model.shared)} are parts of both sides, but the model has "
            f"only the side {next(iter(towers))!r}; set it to ()."
        )
    return DualEncoder(towers, similarity, scorer, tuple(model.shared))


def _check_vectors(
    towers: Mapping[str, Tower], scorer: PairScorer | None, similarity: Similarity
) -> None:
    """Raises an error if items without vectors are to be compared by their vectors."""
    without = sorted(side for side, tower in towers.items() if not tower.embeds)
    if not without:
        return
    if scorer is None or len(without) < len(SIDES):
        raise UserError(
            f"config.model.{without[0]}.head is 'none', which only a pair scorer can use: set "
            "config.model.pair_scorer and the heads of both sides to 'none', or choose a head."
        )
    if similarity.name != "dot" or similarity.parameters:
        raise UserError(
            "config.model.similarity compares vectors, which a model with the head 'none' lacks; "
            "set it to {'name': 'dot'}."
        )
