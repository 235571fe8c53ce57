"""Your own pictures and captions, from a folder in any of the layouts of `captioned_images`.

    python -m xmodal.main --config=configs/own_data.py --config.data.manual_dir=FOLDER

data_prep/captioned_images/README.md describes the folder. Small towers are trained from scratch,
which a laptop CPU can do. A published tower, on one side or both, replaces the small one:

    python -m xmodal convert --tower=bert --source=FOLDER --output=weights/minilm
    python -m xmodal.main --config=configs/own_data.py --config.data.manual_dir=FOLDER \\
        --config.init_from.towers.text=weights/minilm

`own_data.py:frozen` trains only projections of two published towers, whose outputs are computed
once. This is the best choice for a few hundred pictures.

The batch size and the length of the run depend on the number of training images; any number may
replace a string such as "16; 32 from 500 examples".
"""

from ml_collections import ConfigDict

from configs import base, cxc

DIMENSION = 256


def get_config(argument: str = "") -> ConfigDict:
    """`frozen` trains only projections of two published towers."""
    return base.variant(trained(), argument, frozen=frozen)


def trained() -> ConfigDict:
    """Leaves settings that depend on the towers unset; `scratch` has those of the small towers."""
    config = base.base("own_data")
    config.total_steps = "60 epochs; 30 epochs from 2000 examples; 10 epochs from 50000 examples"
    config.batch_size = "4; 16 from 32 examples; 32 from 200 examples; 64 from 2000 examples"
    config.log_every = 10
    for side in ("image", "text"):
        config.model[side] = {
            "encoder": {"name": ""},
            "head": None,
            "projection": {"width": DIMENSION},
        }
    config.model.similarity = {"name": "cosine", "temperature": 0.07}
    config.data = base.dataset("captioned_images")
    config.data.image.update({"size": 0, "eval_crop": 1.0})
    config.data.image.augment = {
        "area": (0.5, 1.0), "aspect": (0.75, 1.33), "flip": True, "color": True
    }  # fmt: skip
    for key in ("tokenizer", "lower_case", "unknown", "markers", "max_length"):
        del config.data.text[key]
    config.scratch = {"image": small_image_tower(), "text": small_text_tower()}
    config.tasks = {"i2t": cxc.image_text()}
    config.optimizer = base.adam(3e-3, {"name": "cosine", "warmup_steps": "3 epochs"})
    config.optimizer.update({"name": "adamw", "weight_decay": {"rate": 0.05}, "clip_norm": 1.0})
    config.optimizer["groups"] = {
        f"{side}_tower": tower_rate(side, 0.1) for side in ("image", "text")
    }
    every = "10 epochs; 3 epochs from 2000 examples; 1 epochs from 50000 examples"
    config.evals = {"own": base.boards(every)}
    config.checkpoint.every = every
    return config


def frozen(config: ConfigDict) -> ConfigDict:
    """Keeps the published towers frozen; their outputs are computed once and stored."""
    config.name += "_frozen"
    del config.scratch
    config.freeze = ("image/encoder/", "text/encoder/")
    config.frozen_features.sides = ("image", "text")
    config.data.image.augment = None
    config.optimizer.learning_rate, config.optimizer.groups = 1e-3, {}
    return config


def tower_rate(side: str, rate: float) -> dict:
    """A parameter group that trains the encoder of a side at a fraction of the learning rate."""
    return {"pattern": f"{side}/encoder/", "rate": rate}


def small_image_tower() -> dict:
    """A small EfficientNet on small pictures."""
    # Few pictures mean few steps, so the running statistics have to adapt quickly.
    encoder = base.small_convnet(width=0.35) | {"momentum": 0.9}
    return {
        "model": {"image": {"encoder": encoder, "head": {"name": "mean"}}},
        # The little that can be learned from few pictures is in their colors.
        "data": {
            "image": {"size": 32, "augment": {"area": (0.3, 1.0), "color": False, "erase": 0.3}}
        },
        "optimizer": {"groups": {"image_tower": tower_rate("image", 1.0)}},
    }


def small_text_tower() -> dict:
    """The mean of trained word vectors: with few captions, a larger model would only memorize."""
    words = {"name": "words", "vocab_size": 0, "width": DIMENSION, "dropout": 0.2}
    return {
        "model": {"text": {"encoder": words, "head": {"name": "mean"}}},
        "data": {"text": base.words("nltk", min_count=2, max_length=64)},
        "optimizer": {"groups": {"text_tower": tower_rate("text", 1.0)}},
    }
