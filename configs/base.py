"""Every field of a run with its default, and sections that several papers share."""

from collections.abc import Callable
from typing import Any

from ml_collections import ConfigDict

from xmodal.core.config import defaults
from xmodal.data.data_config import DataConfig
from xmodal.data.text.text_config import TextConfig
from xmodal.train.optimization.optimizer import OptimizerConfig
from xmodal.train.run_config import RunConfig


def base(name: str) -> ConfigDict:
    """A run without a model, tasks or evaluators; the defaults are those of `RunConfig`."""
    config = defaults(RunConfig) | {
        "name": name,
        "model": {"image": None, "text": None, "similarity": {"name": "cosine"}},
        "tasks": {},
        "optimizer": adam(1e-4),
        "data": dataset("crisscrossed_shapes"),
        "evals": {},
    }
    # A section may replace None, and "3 epochs" a number.
    return ConfigDict(config, type_safe=False)


def dataset(name: str, builder_config: str = "images") -> dict:
    """`config.data` for a dataset with captions and, unless `image` is None, pictures."""
    own = {"dataset": name, "config": builder_config, "image": pixels(224), "text": wordpiece()}
    return defaults(DataConfig) | own


def pixels(size: int, augment: dict | None = None, crop: float = 1.0, recipe: str = "cxc") -> dict:
    """`config.data.image`: the size and, in training and evaluation, the crop of pictures."""
    return {"size": size, "augment": augment, "eval_crop": crop, "eval_transform": recipe}


def wordpiece(vocabulary_size: int = 1000, max_length: int = 32, **options: Any) -> dict:
    """`config.data.text` for BERT's tokenizer with a learned vocabulary."""
    own = {"vocabulary_size": vocabulary_size, "max_length": max_length}
    return defaults(TextConfig) | own | options


def any_text() -> dict:
    """`config.data.text` that leaves everything else to a published text tower."""
    return {"vocabulary": "", "vocabulary_size": 1000}


def words(tokenizer: str, min_count: int, max_length: int, **options: Any) -> dict:
    """`config.data.text` for a word tokenizer with the training words seen `min_count` times."""
    own = {"tokenizer": tokenizer, "min_count": min_count, "unknown": "token"}
    return wordpiece(max_length=max_length) | own | options


def learned_cosine(temperature: float, **options: float | bool) -> dict:
    """`config.model.similarity`: cosines divided by a learned temperature."""
    return {"name": "cosine", "temperature": temperature, "learned_temperature": True} | options


def tower(encoder: dict, head: str | dict | None = "mean", **projection: Any) -> dict:
    """One tower of `config.model`; keywords are those of its projection, none for no projection."""
    head = {"name": head} if isinstance(head, str) else head
    return {"encoder": encoder, "head": head, "projection": projection or None}


def adam(
    rate: float, schedule: dict | None = None, clip_norm: float | None = None, **options: Any
) -> dict:
    """`config.optimizer` for plain Adam; the default schedule is constant."""
    own = {"options": options, "learning_rate": rate, "clip_norm": clip_norm}
    return defaults(OptimizerConfig) | own | {"schedule": schedule or {"name": "constant"}}


def adamw(
    rate: float, decay: float, warmup: int | str = 0, *, schedule: str = "cosine",
    decayed: str | None = None, **options: Any,
) -> dict:  # fmt: skip
    """`config.optimizer` for AdamW.

    `decayed`: pattern of the paths of decayed parameters; other options as in `adam`.
    """
    given = {"name": schedule, "warmup_steps": warmup}
    weight_decay = {"rate": decay, "pattern": decayed}
    return adam(rate, given, **options) | {"name": "adamw", "weight_decay": weight_decay}


def benchmarks(every: int | str = 1000, **options: Any) -> dict:
    """An evaluator of retrieval and rated pairs on the run's own dataset."""
    return evaluator("benchmarks", every, **options)


def evaluator(kind: str, every: int | str, **options: Any) -> dict:
    """An evaluator of any type."""
    return {"type": kind, "every": every, "batch_size": 512} | options


def task(
    left: str,
    right: str,
    loss: str,
    *,
    weight: float = 1.0,
    negatives: str = "image",
    inputs: tuple[str, ...] = (),
    module: dict | None = None,
    **options: Any,
) -> dict:
    """One entry of `config.tasks`: two views compared by a loss."""
    section = {"name": loss, "options": options, "inputs": inputs, "module": module or {}}
    return {"views": [left, right], "loss": section, "weight": weight, "negatives": negatives}


def pair_task(loss: str, **settings: Any) -> dict:
    """`task` on an image and its caption."""
    return task("image", "caption_0", loss, **settings)


def bert(**changes: Any) -> dict:
    """The text encoder BERT, by default with the sizes of BERT-Base, uncased."""
    return {"name": "bert", "vocab_size": 30522} | changes


def small_convnet(width: float = 0.25, **changes: Any) -> dict:
    """An EfficientNet small enough for a laptop CPU."""
    return {"name": "efficientnet", "width": width, "depth": 0.25} | changes


def on_built_in_dataset(config: ConfigDict, steps: int = 60) -> ConfigDict:
    """A small version of the experiment on the built-in dataset; the caller shrinks the model."""
    config = config.copy_and_resolve_references()
    config.name += "_quick"
    config.total_steps, config.batch_size, config.log_every = steps, 64, steps // 3
    config.data.update({"dataset": "crisscrossed_shapes", "config": "images"})
    config.data.text.vocabulary = ""
    config.init_from.published = ()
    if config.data.image is not None:
        config.data.image.size = 64
    config.optimizer.learning_rate = 1e-3
    config.evals = {"shapes": benchmarks(steps // 2, bootstrap_samples=100)}
    config.best_checkpoint = {"metric": "shapes/mean_recall@10", "mode": "max"}
    config.checkpoint.every = steps // 2
    return config


def variant(config: ConfigDict, argument: str, **variants: Callable) -> ConfigDict:
    """Applies variants joined by commas, see `choose`, and appends their names to the config's."""
    for each in argument.split(","):
        name, config = config.name, choose(config, each, **variants)
        config.name = "_".join(filter(None, (name, each)))
    return config


def choose(config: ConfigDict, argument: str, **variants: Callable) -> ConfigDict:
    """The experiment itself, or the variant named in `--config=FILE.py:ARGUMENT`.

    Args:
      config: the experiment.
      argument: "" or the name of a variant.
      **variants: functions of the config.
    """
    if not argument:
        return config
    if argument not in variants:
        known = ", ".join(sorted(variants))
        raise ValueError(f"Unknown variant {argument!r} of {config.name}; known: {known} or none.")
    return variants[argument](config)
