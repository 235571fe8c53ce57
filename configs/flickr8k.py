"""Real photographs and captions: a text tower from scratch onto MobileNetV2 features of Flickr8k.

    python -m xmodal.main --config=configs/flickr8k.py --config.data.manual_dir=DIR

DIR holds Flickr8k's captions, splits and ratings, and mobilenet_v2_features.npz
(the error without it lists the files). Expert and crowd ratings of the test images are the
correlations. 10 minutes of CPU time on two cores, evaluation included.

Reached, seed 0, test split, R@1/5/10: I->T 22.4 50.0 61.9, T->I 16.4 42.5 55.9; Spearman with the
expert ratings 63.6 +-2.8, with the crowd's 35.9 +-3.7.
"""

from ml_collections import ConfigDict

from configs import common

DIMENSION = 512


def get_config(argument: str = "") -> ConfigDict:
    """The text tower from scratch, or a `pretrained` one; `quick` runs on the embedded dataset."""
    variants = {
        "": lambda config: config,
        "pretrained": pretrained,
        "pretrained_i2t": pretrained_i2t,
        "pretrained_images": pretrained_images,
    }
    if argument not in variants:
        known = ", ".join(filter(None, variants))
        raise ValueError(f"Unknown variant {argument!r} of flickr8k; known: {known} or none.")
    return variants[argument](from_scratch())


def from_scratch() -> ConfigDict:
    """A small text tower and a projection of the features."""
    config = common.experiment("flickr8k")
    config.total_steps, config.batch_size, config.log_every = 600, 256, 50
    config.model.image = {
        "name": "precomputed",
        "features": 1280,
        "hidden": (),
        "dropout": 0.0,
        "input_norm": "l2",
        "projection": DIMENSION,
    }
    config.model.text = {
        "name": "bert",
        "vocab_size": 0,
        "width": 256,
        "depth": 1,
        "heads": 4,
        "mlp_dim": 512,
        "max_positions": 32,
        "dropout": 0.2,
        "dtype": "float32",
        "adapter": None,
        "pool": "mean",
        "projection": DIMENSION,
    }
    config.model.similarity = "cosine"
    config.freeze, config.l2 = [], None
    i2t, t2t = common.image_text(), common.text_text(0.3)
    i2t["options"]["temperature"] = t2t["options"]["temperature"] = 0.07
    config.tasks = {"i2t": i2t, "t2t": t2t}
    config.data.dataset, config.data.config = "flickr8k", "features"
    config.data.captions_per_image = 2
    config.data.image = {"size": 0, "augment": None, "eval_crop": 1.0}
    config.data.text.vocabulary_size, config.data.text.max_length = 5000, 20
    config.optimizer = {
        "name": "adamw",
        "options": {"weight_decay": 0.01},
        "learning_rate": 1e-3,
        "schedule": {"name": "cosine", "warmup_steps": 100},
        "clip_norm": 1.0,
        "skip_outliers": None,
    }
    config.evaluation.every, config.checkpoint.every = 150, 150
    config.checkpoint.best_metric = "flickr8k/mean_recall@10"
    return config


def pretrained(config: ConfigDict) -> ConfigDict:
    """The last layer of a sentence encoder trained, what the others give computed once."""
    config.name = "flickr8k_pretrained"
    config.total_steps, config.log_every = 200, 10
    # The same path and the same inputs as behind a MobileNetV2 that is trained itself.
    config.model.image.input_norm = "none"
    config.model.text = {
        "name": "bert",
        "vocab_size": 30522,
        "width": 384,
        "depth": 6,
        "lower_depth": 5,
        "heads": 12,
        "mlp_dim": 1536,
        "max_positions": 512,
        "dtype": "float32",
        "pool": "mean",
        "projection": DIMENSION,
    }
    config.init_from.towers.text = "minilm"
    config.data.text.vocabulary = "minilm/vocab.txt"
    config.freeze = ["text/bert/(?!layers/)"]
    config.frozen_cache = "flickr8k_text"
    config.optimizer.learning_rate = 7e-4
    config.optimizer.schedule.warmup_steps = 20
    config.evaluation.every, config.checkpoint.every = 100, 100
    return config


def pretrained_i2t(config: ConfigDict) -> ConfigDict:
    """The same without captions against captions."""
    config = pretrained(config)
    config.name += "_i2t"
    config.data.captions_per_image = 1
    del config.tasks.t2t
    return config


def pretrained_images(config: ConfigDict) -> ConfigDict:
    """Goes on from a run of `pretrained`, with MobileNetV2 itself in place of its features."""
    config = pretrained(config)
    config.name += "_images"
    config.total_steps, config.batch_size = 150, 64
    config.model.image = {
        "name": "mobilenet_v2",
        "batch_norm": "folded",
        "dtype": "float32",
        "projection": DIMENSION,
    }
    config.data.config = "images"
    config.data.image = {
        "size": 160,
        "augment": {"area": (0.67, 1.0), "aspect": (0.75, 1.33), "flip": True, "colour": True},
        "eval_crop": 1.0,
    }
    config.init_from.towers = {"image": "mobilenet_v2", "text": ""}
    config.init_from.run = "runs/flickr8k_pretrained"
    config.init_from.include = ["text/", "image/projection/"]
    config.init_from.optimizer = False
    config.optimizer.learning_rate = 1e-4
    config.evaluation.every, config.checkpoint.every = 75, 75
    return config
