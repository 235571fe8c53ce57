"""Config sections that the training code reads."""

import dataclasses
import math
from collections.abc import Mapping, Sequence

import jax
from jax.sharding import Mesh

from xmodal.core import mesh as mesh_lib
from xmodal.core.config import setting
from xmodal.core.errors import UserError
from xmodal.evals.reports.metrics import lower_is_better, tie_breakers


@dataclasses.dataclass(frozen=True)
class TowersConfig:
    """`config.init_from.towers`: folders of `xmodal convert`, "" for none.

    `pip:NAME` is a tower of an installed package, see `pretrained.packaged_towers`.
    """

    image: str = ""
    text: str = ""


@dataclasses.dataclass(frozen=True)
class WordVectorsConfig:
    """`config.init_from.word_vectors`: initial values of the text encoder's word table.

    A word that the file lacks is looked up again without hyphens, periods and apostrophes, and up
    to the first slash, as PVSE and PCME do. Words that are not found keep their random vectors.

    Attributes:
      file: a GloVe, word2vec or fastText file, see `pretrained.word_vectors`; "" for none.
    """

    file: str = ""


@dataclasses.dataclass(frozen=True)
class InitConfig:
    """`config.init_from`: weights that a run starts from.

    Attributes:
      run: folder of another run; "" for none.
      step: its checkpoint: a number, `latest` or `best`.
      include: regular expressions matched from the start of a parameter's path; only these are
        taken, and replace those of `towers` and `model`; `[".*"]` takes all.
      optimizer: whether Adam's moments are taken as well, as in the fine-tuning of the CxC authors.
      towers: see `TowersConfig`.
      model: folder of `xmodal convert --model` with both towers and the similarity; "" for
        none.
      word_vectors: see `WordVectorsConfig`.
      concepts: file of `python -m data_prep.concepts` for the head "consensus"; "" for the most
        frequent words of the training captions, without lemmas.
      published: regular expressions matched from the start of a parameter's path: those that the
        experiment takes from published weights. A warning names those that start at random;
        each must match a parameter.
    """

    run: str = ""
    step: str | int = "best"
    include: tuple[str, ...] = setting((".*",), pattern=True)
    optimizer: bool = True
    towers: TowersConfig = TowersConfig()
    model: str = ""
    word_vectors: WordVectorsConfig = WordVectorsConfig()
    concepts: str = ""
    published: tuple[str, ...] = setting((), pattern=True)

    @property
    def has_weights(self) -> bool:
        """Whether any tower starts from weights; word vectors alone do not count."""
        return any((self.run, self.model, self.towers.image, self.towers.text))

    def __post_init__(self) -> None:
        towers = dataclasses.asdict(self.towers)
        if self.model and any(towers.values()):
            raise UserError(
                f"config.init_from.model={self.model!r} provides both towers, and "
                f"config.init_from.towers={towers} names others; set one of the two."
            )


@dataclasses.dataclass(frozen=True)
class FrozenFeaturesConfig:
    """`config.frozen_features`: modalities whose frozen part is computed once for all records.

    Evaluation reads it, too, where a head without parameters pools the encoder's whole output.

    Attributes:
      modalities: any of "image" and "text".
      folder: folder for the features; "" for that of the dataset.
    """

    modalities: tuple[str, ...] = setting((), one_of=("image", "text"))
    folder: str = ""


@dataclasses.dataclass(frozen=True)
class BestCheckpointConfig:
    """`config.best_checkpoint`: the metric that selects the best checkpoint.

    Where it is equal, as a saturated R@10, the next metric of its table decides, see
    `metrics.tie_breakers`; then the later checkpoint is better.

    Attributes:
      metric: tag of an evaluator's metric; "" is the default metric of the first evaluator that has
        one for its dataset: the mean reciprocal rank of own data, the mean R@10 of other
          benchmarks.
      mode: whether the highest ("max") or the lowest ("min") value is best; "last" selects the
        last checkpoint that has the metric.
    """

    metric: str = ""
    mode: str = setting("max", one_of=("max", "min", "last"))

    def __post_init__(self) -> None:
        best, worst = ("min", "max") if lower_is_better(self.metric) else ("max", "min")
        if self.metric and self.mode == worst:
            raise UserError(
                f"config.best_checkpoint.mode={worst!r} selects the worst checkpoint by "
                f"config.best_checkpoint.metric={self.metric!r}; set it to {best!r}."
            )

    def rank(self, metrics: Mapping[str, float]) -> tuple[float, ...]:
        """Returns numbers to compare checkpoints by, higher for better metrics, -inf for NaN.

        It is empty without the metric, and where all of `metrics.tie_breakers` are undefined too.
        """
        modes = {self.metric: self.mode}
        if self.mode != "last":
            tags = tie_breakers(self.metric)
            modes |= {tag: "min" if lower_is_better(tag) else "max" for tag in tags}
        values = {tag: metrics.get(tag, math.nan) for tag in modes}
        scores = tuple(
            -math.inf if math.isnan(x) else {"max": x, "min": -x, "last": 0.0}[modes[tag]]
            for tag, x in values.items()
        )
        return scores if self.metric in metrics and any(map(math.isfinite, scores)) else ()


@dataclasses.dataclass(frozen=True)
class ProfileConfig:
    """`config.profile`: steps that are traced with `jax.profiler`, for TensorBoard's profile tab.

    Attributes:
      start: first traced step; the first step of a start compiles, so leave out a few.
      steps: number of traced steps.
    """

    start: int = setting(at_least=0)
    steps: int = setting(5, at_least=1)


@dataclasses.dataclass(frozen=True)
class MeshConfig:
    """`config.mesh`: axes of the device mesh. Batches are split over all devices.

    Attributes:
      data: devices along the first axis; -1 for all devices divided by `fsdp`.
      fsdp: devices along the second axis, over which the rule "fsdp" of `config.sharding` splits
        arrays; along the first one, they are copied. 1 for no second axis: the rule splits them
        over all devices.
    """

    data: int = setting(-1, at_least=-1)
    fsdp: int = setting(1, at_least=1)

    def make(self, devices: Sequence[jax.Device] | None = None) -> Mesh:
        """Returns the mesh of the given devices (default: all)."""
        count = len(jax.devices() if devices is None else devices)
        data = count // self.fsdp if self.data == -1 else self.data
        if data * self.fsdp != count:
            raise UserError(
                f"config.mesh has {data} x {self.fsdp} devices, but there are {count}; set "
                "config.mesh.fsdp to a divisor of that, and config.mesh.data to -1."
            )
        return mesh_lib.make_mesh(devices, self.fsdp)


@dataclasses.dataclass(frozen=True)
class CheckpointConfig:
    """`config.checkpoint`.

    Attributes:
      every: steps between two checkpoints; 0 saves only at the end and after evaluations.
      keep_last: how many are kept besides the best one.
    """

    every: int = setting(1000, at_least=0)
    keep_last: int = setting(3, at_least=1)
