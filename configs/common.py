"""Sub-configs that several experiments share: plain data, no code of ours."""

from collections.abc import Callable

from ml_collections import ConfigDict


def experiment(name: str) -> ConfigDict:
    """Every field a run has, with the values the experiments agree on."""
    return ConfigDict(
        {
            "name": name,
            "seed": 0,
            "total_steps": 40_000,
            "batch_size": 2048,
            "log_every": 50,
            "model": {"image": efficientnet_b4(), "text": frozen_bert(), "similarity": "dot"},
            "tasks": {},
            "freeze": ["text/bert/"],
            "l2": {"pattern": "image/.*(kernel|depthwise)$", "scale": 5e-6},
            # `--config.init_from.run=runs/cc_pretrain` starts from that run's weights,
            # `--config.init_from.towers.text=DIR` from a folder of data_prep.convert_weights.
            "init_from": {
                "run": "",
                "step": "best",
                "include": [".*"],
                "optimizer": True,
                "towers": {"image": "", "text": ""},
            },
            # Folder for what the frozen part of the text tower gives: computed once, then read.
            "frozen_cache": "",
            "optimizer": cxc_adam(5e-6),
            "data": coco(),
            "splits": {"train": "train", "validation": "validation", "test": "test"},
            "evaluation": {"every": 1000, "batch_size": 512, "bootstrap_samples": 1000, "seed": 0},
            "checkpoint": {"every": 1000, "keep_last": 3, "best_metric": "coco5k/mean_recall@10"},
            # (regular expression of a path in the state, rule); the first match wins.
            "sharding": [[".*", "replicated"]],
        }
    )


def efficientnet_b4() -> dict:
    """The image tower of the CxC paper: pooled 1792-d output, no projection."""
    return {
        "name": "efficientnet",
        "variant": "b4",
        "dtype": "bfloat16",
        "depthwise": "auto",
        "batch_norm": "per_device",
        "drop_connect": 0.2,
        "remat": False,
    }


def frozen_bert(projection: int | None = 1792) -> dict:
    """The text tower of the CxC paper: BERT-Base, three new layers, a linear projection."""
    return {
        "name": "bert",
        "vocab_size": 30522,
        "width": 768,
        "depth": 12,
        "heads": 12,
        "mlp_dim": 3072,
        "max_positions": 512,
        "dtype": "bfloat16",
        "adapter": {"block": "milan", "width": 768, "depth": 3, "heads": 8, "mlp_dim": 3072},
        "pool": "first",
        "projection": projection,
    }


def minilm(lower_depth: int, projection: int | None = None) -> dict:
    """The sentence encoder all-MiniLM-L6-v2, its first layers kept apart to be frozen."""
    return {
        "name": "bert",
        "vocab_size": 30522,
        "width": 384,
        "depth": 6,
        "lower_depth": lower_depth,
        "heads": 12,
        "mlp_dim": 1536,
        "max_positions": 512,
        "dtype": "float32",
        "pool": "mean",
        "projection": projection,
    }


def cxc_adam(learning_rate: float) -> dict:
    """Adam as released: the rate falls by 0.1 % every 1000 steps, outlying updates are skipped."""
    return {
        "name": "adam",
        "options": {"b1": 0.9, "b2": 0.999, "eps": 1e-8},
        "learning_rate": learning_rate,
        "schedule": {"name": "staircase", "rate": 0.999, "every": 1000},
        "clip_norm": 1.0,
        "skip_outliers": {"deviations": 4.0, "decay": 0.995, "floor": 0.1},
    }


def coco() -> dict:
    """COCO in the Karpathy split, restval in train, with the released CxC ratings."""
    return {
        "dataset": "coco_captions",
        "config": "images",
        "data_dir": "",
        "manual_dir": "",
        "ratings_dir": "",
        "examples": "images",
        "captions_per_image": 1,
        "image": {
            "size": 380,
            "augment": {
                "area": (0.67, 1.0),
                "aspect": (0.75, 1.33),
                "flip": True,
                "colour": True,
            },
            "eval_crop": 0.875,
        },
        "text": {
            "vocabulary": "",
            # Learning may overshoot its aim by a few per cent; the model has 30,522 rows.
            "vocabulary_size": 29_000,
            "max_length": 48,
            "lower_case": True,
        },
        "prefetch": 4,
    }


def image_text(weight: float = 1.0) -> dict:
    """Images against captions, both directions: equation (1) of the CxC paper."""
    return _softmax("image", "caption_0", weight)


def text_text(weight: float = 1.0) -> dict:
    """Captions of one image against each other; the weight is c of equation (2), not printed."""
    return _softmax("caption_0", "caption_1", weight)


def _softmax(left: str, right: str, weight: float) -> dict:
    options = {"form": "with_positive", "directions": "mean", "temperature": 1.0, "engine": "dense"}
    return {"left": left, "right": right, "loss": "softmax", "options": options, "weight": weight}


def quick(config: ConfigDict) -> ConfigDict:
    """The `:quick` variant of an experiment: the same parts, small, on the embedded dataset."""
    config = ConfigDict(config)
    config.name += "_quick"
    config.total_steps, config.batch_size, config.log_every = 60, 64, 20
    config.data.dataset, config.data.config = "crisscrossed_shapes", "images"
    config.data.text.vocabulary = ""
    config.data.text.vocabulary_size, config.data.text.max_length = 1000, 32
    config.evaluation.every, config.checkpoint.every = 30, 30
    config.evaluation.bootstrap_samples = 100
    config.checkpoint.best_metric = "shapes/mean_recall@10"
    config.optimizer.learning_rate = 1e-3
    if config.model.image is not None:
        config.data.image.size = 64
        config.model.image = {
            "name": "efficientnet",
            "width": 0.25,
            "depth": 0.25,
            "batch_norm": config.model.image.batch_norm,
        }
    text = config.model.text
    text.vocab_size, text.max_positions, text.dtype = 0, 32, "float32"
    text.width, text.depth, text.heads, text.mlp_dim = 64, 1, 2, 128
    text.adapter.width, text.adapter.heads, text.adapter.mlp_dim = 64, 2, 128
    if text.projection is not None:
        # EfficientNet's head is 1280 channels wide before scaling, 320 after.
        text.projection = 320
    return config


def variant(config: ConfigDict, argument: str, **others: Callable) -> ConfigDict:
    """The experiment itself, or what stands behind the colon of `--config=FILE.py:ARGUMENT`.

    Args:
      config: the experiment.
      argument: "", `quick`, or the name of one of the others.
      **others: functions of the config that make variants of this experiment alone.
    """
    variants = {"": lambda c: c, "quick": quick} | others
    if argument not in variants:
        known = ", ".join(sorted(filter(None, variants)))
        raise ValueError(f"Unknown variant {argument!r} of {config.name}; known: {known} or none.")
    return variants[argument](config)
