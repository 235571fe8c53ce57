"""One tower of a dual encoder: encoder, head and projection, wrapped in plain functions."""

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from xmodal.core.config import read
from xmodal.core.errors import UserError
from xmodal.core.tree_paths import leaves_by_path
from xmodal.models.attention import KEPT
from xmodal.models.basics import ONE_CPU, Devices, Mode, Tree
from xmodal.models.encoders import make_encoder
from xmodal.models.encoders.encoder import Encoder, read_ids
from xmodal.models.features import OF_PAIRS, Features, hash_items
from xmodal.models.heads import make_head
from xmodal.models.heads.pooling import Cls, NoVector, Pooling
from xmodal.models.projection import make_projection
from xmodal.similarity.embedding import Embedding


class Modes(NamedTuple):
    """The mode of each part of a tower."""

    encoder: Mode = Mode.EVALUATE
    head: Mode = Mode.EVALUATE
    projection: Mode = Mode.EVALUATE


PARTS = Modes._fields
_STREAMS = ("dropout", "sample")


class TowerModule(nn.Module):
    """Parameters: `encoder`, `head` and `projection`, if these have any.

    Attributes:
      keeps: input of a cross-encoder, which embeddings carry as the extra `features`:
        "tokens", all of the encoder's, with the extras of `OF_PAIRS`; "ids", the ids of texts as
        tokens int32 [N, T, 1]; or "", nothing.
    """

    encoder: Encoder
    head: nn.Module
    projection: nn.Module | None
    keeps: str = ""

    def __call__(self, inputs: Mapping[str, jax.Array], modes: Modes) -> Embedding:
        """Columns with items first -> the embeddings of the items, float32."""
        if self.pools_frozen_features() and self.encoder.feature_column in inputs:
            features = Features(join_summands(inputs[self.encoder.feature_column]))
        else:
            features = self.encoder(inputs, modes.encoder)
        # Compiled away if no head reads them.
        extras = {**features.extras, "content": hash_items(inputs)}
        for column in ("text_ids", "text_label_ids"):
            if column in inputs:
                extras["label_ids"] = inputs[column]
        embedding = self.head(dataclasses.replace(features, extras=extras), modes.head)
        if self.projection is not None:
            embedding = self.projection(embedding, modes.projection)
        if self.keeps:
            read = {name: features.extras[name] for name in OF_PAIRS if name in features.extras}
            kept = dataclasses.replace(features, extras=read)
            if self.keeps == "ids":
                ids, mask = read_ids(inputs)
                kept = Features(ids[..., None], mask)
            embedding = dataclasses.replace(
                embedding, extras={**embedding.extras, "features": kept}
            )
        return embedding

    def pools_frozen_features(self) -> bool:
        """Returns whether frozen features are pooled: only a head without parameters reads them."""
        may_pool = self.encoder.feature_column != "" and self.encoder.may_pool_features
        return may_pool and isinstance(self.head, Pooling) and not self.keeps

    def frozen_features(self, inputs: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
        """Returns the encoder's frozen features by column, see `Tower.frozen_features`."""
        if not self.pools_frozen_features():
            return self.encoder.frozen_features(inputs)
        vector = self.head.pool(self.encoder(inputs, Mode.EVALUATE))
        return {self.encoder.feature_column: split_summands(vector)}


def split_summands(vectors: jax.Array) -> jax.Array:
    """Returns three summands [N, 3, W] of float32 vectors [N, W], each exact in bfloat16.

    Records of features are bfloat16. The errors of many rounded tokens average out; that of their
    rounded mean would stay.
    """
    summands = []
    for _ in range(3):
        # Unlike a conversion to bfloat16 and back, XLA never leaves this out.
        summands.append(jax.lax.reduce_precision(vectors, exponent_bits=8, mantissa_bits=7))
        vectors = vectors - summands[-1]
    return jnp.stack(summands, axis=1)


def join_summands(summands: jax.Array) -> jax.Array:
    """Returns the sum of `split_summands`, and of zero rows after them, as tokens [N, 1, W]."""
    return jnp.sum(summands, axis=1, keepdims=True, dtype=jnp.float32)


@dataclasses.dataclass(frozen=True)
class Tower:
    """A tower with its `init` and `apply`.

    Parameters and state are nested plain dicts of arrays, float32 but for tables of numbers. The
    state holds the running statistics (`batch_stats`), which a training step changes without a
    gradient, and arrays that never change (`constants`); it is empty for towers that have none.
    Inputs are dicts of batch columns, as the encoder documents them.
    """

    module: TowerModule

    def init(self, key: jax.Array, inputs: Mapping[str, Any]) -> tuple[Tree, Tree]:
        """Returns fresh `(params, model_state)`; only shapes and dtypes of the inputs matter."""
        variables = dict(self.module.init(key, inputs, Modes()))
        return variables.pop("params", {}), variables

    def apply(
        self,
        params: Tree,
        model_state: Tree,
        inputs: Mapping[str, Any],
        *,
        train: bool = False,
        frozen: Collection[str] = (),
        key: jax.Array | None = None,
    ) -> tuple[Embedding, Tree]:
        """Returns the embeddings of `inputs` and the new model state (the old one unless `train`).

        Args:
          params: parameters, as from `init`.
          model_state: state, as from `init`.
          inputs: columns with items first.
          train: use batch statistics, update the running ones, and apply dropout.
          frozen: those of "encoder", "head" and "projection" whose parameters are all frozen:
            they run as in evaluation, except as described in `batch_norm.BatchNorm`.
          key: seeds random numbers; needed when a part that is not frozen is trained.
        """
        variables = {"params": params, **model_state}
        if not train:
            embedding: Any = self.module.apply(variables, inputs, Modes())
            return embedding, model_state
        modes = Modes(*(Mode.FROZEN if part in frozen else Mode.TRAIN for part in PARTS))
        rngs = {} if key is None else dict(zip(_STREAMS, jax.random.split(key), strict=True))
        applied: Any = self.module.apply(
            variables, inputs, modes, rngs=rngs, mutable=list(model_state)
        )
        return applied

    def attend(
        self, params: Tree, model_state: Tree, inputs: Mapping[str, Any]
    ) -> jax.Array | None:
        """Returns the weights with which vectors read the tokens of their items.

        They are those of the head's attention, or, if the vector is the first token, of this token
        in the last layer of a transformer, as means over attention heads.

        Args:
          params: see `apply`.
          model_state: see `apply`.
          inputs: see `apply`.

        Returns:
          [N, T]; None if neither has attention.
        """
        variables = {"params": params, **model_state}
        applied: Any = self.module.apply(variables, inputs, Modes(), mutable=[KEPT])
        embedding, kept = applied[0], leaves_by_path(applied[1].get(KEPT, {}))
        found = embedding.extras.get("attention", kept.get("head/attention"))
        if found is None and isinstance(self.module.head, Cls):
            layers = kept.get("encoder/layers/attention")
            return None if layers is None else layers[-1]
        return found

    def keeping(self, features: str) -> "Tower":
        """Returns this tower with `features` in its embeddings, see `TowerModule.keeps`."""
        return Tower(self.module.clone(keeps=features))

    @property
    def embeds(self) -> bool:
        """Whether items have vectors, and not only features for a cross-encoder."""
        return not isinstance(self.module.head, NoVector)

    @property
    def feature_column(self) -> str:
        """The column of frozen features; "" if the encoder has none."""
        return self.module.encoder.feature_column

    @property
    def feature_pooling(self) -> str:
        """Name of the head that reduces frozen features to a vector; "" if all tokens are kept."""
        self._check_feature_column()
        return type(self.module.head).__name__ if self.module.pools_frozen_features() else ""

    def frozen_features(
        self, params: Tree, model_state: Tree, inputs: Mapping[str, Any]
    ) -> dict[str, jax.Array]:
        """Returns the output of the part of the encoder that is usually frozen, by column.

        `apply` accepts this column instead of the raw one (masks are still needed) and gives the
        same embeddings. The features depend on the parameters that `frozen_paths` lists and
        on the encoder's model state.

        They are tokens [N, T, W]; but an encoder's whole output that a head without parameters,
        such as `mean`, would reduce is reduced here: see `feature_pooling` and `split_summands`.
        """
        self._check_feature_column()
        variables = {"params": params, **model_state}
        features: Any = self.module.apply(variables, inputs, method="frozen_features")
        return features

    def frozen_paths(self, params: Tree) -> list[str]:
        """Returns the paths, `encoder/stem/kernel`, of parameters that decide frozen features."""
        self._check_feature_column()
        makes = self.module.encoder.makes_frozen_features
        paths = leaves_by_path(params.get("encoder", {}))
        return [f"encoder/{path}" for path in paths if makes(path.partition("/")[0])]

    def _check_feature_column(self) -> None:
        if not self.feature_column:
            name = type(self.module.encoder).__name__
            raise UserError(f"The encoder {name} has no frozen features to store.")


@dataclasses.dataclass(frozen=True)
class TowerConfig:
    """Settings of one tower.

    Attributes:
      encoder: `name`, a key of `ENCODERS`, and its keywords.
      head: `name`, a key of `HEADS`, and its keywords.
      projection: see `projection.ProjectionConfig`; None leaves the head's vectors unchanged.
    """

    encoder: Mapping[str, Any]
    head: Mapping[str, Any]
    projection: Mapping[str, Any] | None = None


def make_tower(where: str, config: Mapping[str, Any], devices: Devices = ONE_CPU) -> Tower:
    """Returns the tower that a section describes.

    Args:
      where: the section as a user writes it: `config.model.image`.
      config: see `TowerConfig`.
      devices: devices that the batch is split over.
    """
    section = read(TowerConfig, where, config)
    return Tower(
        TowerModule(
            make_encoder(f"{where}.encoder", section.encoder, devices),
            make_head(f"{where}.head", section.head),
            make_projection(f"{where}.projection", section.projection),
        )
    )
