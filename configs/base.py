"""Every field of a run with its default, and sections that several papers share."""

from collections.abc import Callable

from ml_collections import ConfigDict

from xmodal.core.config import defaults
from xmodal.data.data_config import DataConfig
from xmodal.data.text.text_config import TextConfig
from xmodal.train.optimization.optimizer import OptimizerConfig
from xmodal.train.run_config import RunConfig

TEXT_TOWER_KEYS = (
    "tokenizer", "lower_case", "canonicalize", "unknown", "markers", "reads_pads", "separators",
    "max_words", "max_length",
)  # fmt: skip
"""Keys of `config.data.text` that a published text tower determines."""


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
    image = {"size": 224, "augment": None, "eval_crop": 1.0, "eval_recipe": "cxc"}
    own = {"dataset": name, "config": builder_config, "image": image, "text": wordpiece()}
    return defaults(DataConfig) | own


def wordpiece(vocabulary_size: int = 1000, max_length: int = 32) -> dict:
    """`config.data.text` for BERT's tokenizer with a learned vocabulary."""
    own = {"vocabulary_size": vocabulary_size, "max_length": max_length}
    return defaults(TextConfig) | own


def words(tokenizer: str, min_count: int, max_length: int, **options: object) -> dict:
    """`config.data.text` for a word tokenizer with the training words seen `min_count` times."""
    own = {"tokenizer": tokenizer, "min_count": min_count, "unknown": "token"}
    return wordpiece(max_length=max_length) | own | options


def adam(learning_rate: float, schedule: dict | None = None, **options: object) -> dict:
    """`config.optimizer` for plain Adam; the default schedule is constant."""
    return defaults(OptimizerConfig) | {
        "options": options,
        "learning_rate": learning_rate,
        "schedule": schedule or {"name": "constant", "warmup_steps": 0},
    }


def boards(every: int | str = 1000) -> dict:
    """An evaluator of retrieval and rated pairs on the run's own dataset."""
    return {"type": "boards", "every": every, "batch_size": 512}


def task(
    left: str,
    right: str,
    loss: str,
    *,
    weight: float = 1.0,
    negatives: str = "image",
    **options: object,
) -> dict:
    """One entry of `config.tasks`: two views compared by a loss."""
    return {
        "views": [left, right],
        "loss": {"name": loss, "options": options, "inputs": [], "reads": [], "module": {}},
        "weight": weight,
        "negatives": negatives,
        "similarity": None,
    }


def bert(**changes: object) -> dict:
    """The text encoder BERT, by default with the sizes of BERT-Base, uncased."""
    return {
        "name": "bert",
        "vocab_size": 30522,
        "width": 768,
        "depth": 12,
        "heads": 12,
        "mlp_dim": 3072,
        "max_positions": 512,
        "dropout": 0.0,
        "dtype": "float32",
    } | changes


def small_convnet(width: float = 0.25, batch_norm: str = "batch") -> dict:
    """An EfficientNet small enough for a laptop CPU."""
    return {
        "name": "efficientnet",
        "width": width,
        "depth": 0.25,
        "batch_norm": batch_norm,
        "statistics": "global",
    }


def on_built_in_dataset(config: ConfigDict, steps: int = 60) -> ConfigDict:
    """A small version of the experiment on the built-in dataset; the caller shrinks the model."""
    config = config.copy_and_resolve_references()
    config.name += "_quick"
    config.total_steps, config.batch_size, config.log_every = steps, 64, steps // 3
    config.data.dataset, config.data.config = "crisscrossed_shapes", "images"
    config.data.text.vocabulary = ""
    config.init_from.published = ()
    if config.data.image is not None:
        config.data.image.size = 64
    config.optimizer.learning_rate = 1e-3
    evaluator = boards(steps // 2)
    evaluator["bootstrap_samples"] = 100
    config.evals = {"shapes": evaluator}
    config.select = {"metric": "shapes/mean_recall@10", "mode": "max"}
    config.checkpoint.every = steps // 2
    return config


def variant(config: ConfigDict, argument: str, **variants: Callable) -> ConfigDict:
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
