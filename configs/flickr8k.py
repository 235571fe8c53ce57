"""Real photographs and captions: text towers onto MobileNetV2 features of Flickr8k, and beyond.

    python -m xmodal.main --config=configs/flickr8k.py --config.data.manual_dir=DIR

DIR holds Flickr8k's captions, splits and ratings, and mobilenet_v2_features.npz
(the error without it lists the files). Expert and crowd ratings of the test images are the
correlations. The text tower starts from scratch: 10 minutes of CPU time on two cores, evaluation
included.

`pretrained` starts from a small sentence encoder, all-MiniLM-L6-v2, and trains its last layer on
what the five lower ones give. `pretrained_i2t` is the same without captions against captions.
`pretrained_images` goes on from a run of `pretrained` and trains MobileNetV2 on the pictures.

    python -m data_prep.convert_weights --tower=bert --source=FOLDER --output=weights/minilm
    python -m xmodal.main --config=configs/flickr8k.py:pretrained \\
        --config.data.manual_dir=DIR --workdir=RUN
    python -m data_prep.convert_weights --tower=mobilenet_v2 --source=FILE \\
        --output=weights/mobilenet_v2
    python -m xmodal.main --config=configs/flickr8k.py:pretrained_images \\
        --config.data.manual_dir=DIR --config.init_from.run=RUN

Reached, seed 0, test split, R@1/5/10, and Spearman with the ratings:

                       I->T           T->I             T->T             expert      crowd
    from scratch       22.4 50.0 61.9 16.4 42.5 55.9   52.3             63.6 +-2.8  35.9 +-3.7
    pretrained_i2t     26.4 52.2 65.1 18.5 45.8 59.7   58.4 81.8 88.6   65.9 +-2.5  36.9 +-3.6
    pretrained         24.6 52.6 65.5 19.3 47.0 59.8   62.4 84.3 90.5   66.3 +-2.5  37.0 +-3.6
    pretrained_images  22.2 50.3 63.8 18.2 46.2 60.1   62.2 83.3 90.3   65.6 +-2.5  36.8 +-3.6

Wall time on 2 CPU cores, shared, evaluations included: 13 minutes for pretrained (not counting 11
in which the machine had it stopped) and 11 for pretrained_i2t, besides 5 for the text features that
both read, and 21 for pretrained_images. pretrained against pretrained_i2t, compared on the same
images (--compare): T->T at every K (R@1 +4.0 [+3.0, +4.9]), T->I R@5 +1.3 [+0.5, +2.2]; I->T R@1
-1.8 [-4.0, +0.5], the ratings and the other numbers are within noise. pretrained_images sees
pictures of 160 pixels where the stored features are of 224: it starts from 51.0 mean R@10 on
validation where these give 63.3, and ends at 58.7.

The sentence encoder learnt from pairs of captions of Flickr30k, which includes the photographs of
Flickr8k: its T->T (R@1 62.2 on validation behind a random projection) is not of unseen captions.
"""

from ml_collections import ConfigDict

from configs import common

DIMENSION = 512


def get_config(argument: str = "") -> ConfigDict:
    """The text tower from scratch, or one of the `pretrained` variants."""
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
    config.model.text = common.minilm(lower_depth=5, projection=DIMENSION)
    config.init_from.towers.text = "weights/minilm"
    config.data.text.vocabulary = "weights/minilm/vocab.txt"
    config.freeze = ["text/bert/(?!layers/)"]
    config.frozen_cache = "frozen/flickr8k_minilm"
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
    config.total_steps, config.batch_size = 200, 64
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
    config.init_from.towers = {"image": "weights/mobilenet_v2", "text": ""}
    config.init_from.run = "runs/flickr8k_pretrained"
    config.init_from.include = ["text/", "image/projection/"]
    config.init_from.optimizer = False
    config.optimizer.learning_rate = 3e-4
    return config
