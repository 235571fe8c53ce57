"""Every field of a run with a neutral value, and sections that several papers share."""

from collections.abc import Callable

from ml_collections import ConfigDict

TEXT_TOWER_KEYS = (
    "tokenizer", "lower_case", "canonicalize", "unknown", "markers", "reads_pads", "separators",
    "max_words", "max_length",
)  # fmt: skip
"""Keys of `config.data.text` that a published text tower determines."""


def base(name: str) -> ConfigDict:
    """A run without a model, tasks or evaluators."""
    return ConfigDict(
        {
            "name": name,
            "seed": 0,
            # Numbers of steps may also be given in epochs, as a string: "30 epochs".
            "total_steps": 10_000,
            "batch_size": 128,
            # Number of parts to embed a batch in, if it does not fit in memory.
            "accumulation_steps": 1,
            "log_every": 50,
            # Or "skip": a batch whose loss is not finite is skipped and recorded.
            "non_finite": "stop",
            "model": {"image": None, "text": None, "similarity": {"name": "cosine"}},
            "tasks": {},
            # Regular expressions matched from the start of a parameter's path.
            "freeze": (),
            "l2": None,
            # `--config.init_from.run=RUN` starts from the weights of another run,
            # `--config.init_from.towers.text=DIR` from a folder of xmodal convert,
            # `--config.init_from.model=DIR` from a folder with both sides.
            "init_from": {
                "run": "",
                "step": "best",
                "include": (".*",),
                "optimizer": True,
                "towers": {"image": "", "text": ""},
                "model": "",
                # `--config.init_from.word_vectors.file=glove.840B.300d.txt` fills the word table.
                "word_vectors": {"file": "", "misses": "shorten"},
                # File of `python -m data_prep.concepts`, for CVSE.
                "concepts": "",
                # `--config.init_from.blend.run=RUN` averages them with the weights of a second run.
                "blend": {"run": "", "step": "best", "weight": 0.5},
                # Parameters that start from published weights in the paper; a warning lists those
                # that start at random.
                "published": (),
            },
            # For these sides, compute the frozen part once and store it beside the dataset.
            "frozen_features": {"sides": (), "folder": ""},
            "optimizer": adam(1e-4),
            "data": dataset("crisscrossed_shapes"),
            "train_split": "train",
            "evals": {},
            "select": {"metric": "", "mode": "max"},
            "checkpoint": {"every": 1000, "keep_last": 3},
            # Number of queries to draw, pairs in histograms, and images in the projector.
            "tensorboard": {"queries": 3, "pairs": 5000, "projector": 500},
            # (regular expression searched in a path of the state, rule); the first match wins.
            "sharding": ((".*", "replicated"),),
        },
        # A section may replace None, and "3 epochs" a number.
        type_safe=False,
    )


def dataset(name: str, builder_config: str = "images") -> dict:
    """`config.data` for a dataset with captions and, unless `image` is None, pictures."""
    return {
        "dataset": name,
        "config": builder_config,
        "data_dir": "",
        "manual_dir": "",
        "ratings_dir": "",
        "examples": "images",
        "captions_per_image": 1,
        "label_captions": 0,
        "mined_negatives": "",
        "labels": (),
        "image": {
            "size": 224,
            "augment": None,
            "eval_crop": 1.0,
            "eval_recipe": "cxc",
        },
        "text": wordpiece(),
        "prefetch": 2,
    }


def wordpiece(vocabulary_size: int = 1000, max_length: int = 32) -> dict:
    """`config.data.text` for BERT's tokenizer with a learned vocabulary."""
    return _text("wordpiece", vocabulary_size=vocabulary_size, max_length=max_length)


def words(tokenizer: str, min_count: int, max_length: int, **options: object) -> dict:
    """`config.data.text` for a word tokenizer with the training words seen `min_count` times."""
    options = {"unknown": "token", **options}
    return _text(tokenizer, min_count=min_count, max_length=max_length, **options)


def _text(tokenizer: str, **options: object) -> dict:
    return {
        "tokenizer": tokenizer,
        "vocabulary": "",
        "vocabulary_size": 1000,
        "min_count": 1,
        "unknown": "drop",
        "markers": "none",
        "start": "",
        "end": "",
        "pad": "",
        "reads_pads": False,
        "max_length": 32,
        "reading": "text",
        "lower_case": True,
        "canonicalize": False,
        "separators": "",
        "max_words": 0,
        "augment": None,
        "prompt": "",
    } | options


def adam(learning_rate: float, schedule: dict | None = None, **options: object) -> dict:
    """`config.optimizer` for plain Adam; the default schedule is constant."""
    return {
        "name": "adam",
        "options": options,
        "learning_rate": learning_rate,
        "schedule": schedule or {"name": "constant", "warmup_steps": 0},
        "clip_norm": None,
        "skip_outliers": None,
        "weight_decay": None,
        "groups": {},
        "plateau": None,
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
