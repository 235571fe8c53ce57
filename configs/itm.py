"""Settings that the image-text matching papers share.

Differences from all of the authors' codes: training pairs are all captions of an image, of which
MS-COCO has up to seven (theirs are five); an incomplete last batch of an epoch is dropped (only
VSE-infinity's regions drop theirs); the matrices of recurrent layers start from Flax's initial
values (LeCun normal, orthogonal) instead of torch's (uniform).
"""

from typing import Any

from ml_collections import ConfigDict

from configs import base, quickstart

DIMENSION = 1024
# The ranges of torchvision's RandomResizedCrop, and a flip.
RESIZED_CROP = {
    "crop": "torchvision", "area": (0.08, 1.0), "aspect": (0.75, 4 / 3), "min_area": 0.0,
    "flip": True, "color": False,
}  # fmt: skip


def experiment(name: str) -> ConfigDict:
    """COCO with restval, in pairs, evaluated after every epoch; the caller adds the model."""
    config = base.base(name)
    config.total_steps = "30 epochs"
    config.data = base.dataset("coco_captions")
    config.data.examples = "pairs"
    config.data.image = base.pixels(224, dict(RESIZED_CROP), crop=0.875, recipe="torchvision")
    config.data.text = base.words("nltk", min_count=4, max_length=64, special_tokens="sentence")
    # Holds 91 % of batches of 128 captions of COCO, and 82 % of batches of 256.
    config.data.text_lengths = (32,)
    config.evals = {"coco": base.benchmarks(every="1 epochs")}
    config.checkpoint.every = "1 epochs"
    return config


def use_regions(config: ConfigDict) -> ConfigDict:
    """Uses SCAN's 36 regions per image and its captions instead of pictures.

    Most of a step is then spent on texts. The longest of 128 captions of COCO has 25 words.
    """
    config.data.update({"dataset": "region_features", "config": "coco"})
    config.data.image = {"size": 0, "augment": None}
    config.data.text_lengths = (24, 32)
    config.evals.coco.final_split = "testall"
    return config


def use_flickr30k(config: ConfigDict, decay_after: str) -> ConfigDict:
    """Uses SCAN's regions of Flickr30k instead of COCO's, and another decay of the rate."""
    config.data.config = "flickr30k"
    config.evals = {"flickr30k": config.evals.coco.to_dict() | {"final_split": "test"}}
    config.optimizer.schedule.every = decay_after
    return config


def resnet(**changes: object) -> dict:
    """`encoder` for a ResNet-152 with torchvision's weights and their running statistics."""
    return {"name": "resnet", "depth": 152, "batch_norm": "running"} | changes


def regions() -> dict:
    """`encoder` for 36 stored regions."""
    return {"name": "precomputed", "features": (36, 2048)}


def gru(width: int, **options: object) -> dict:
    """`encoder` for words: vectors of width 300 from U(-0.1, 0.1) and one GRU layer."""
    start = {"init": "uniform", "init_scale": 0.1}
    return {"name": "rnn", "vocab_size": 0, "width": width} | start | options


def averaged_gru(**options: object) -> dict:
    """`encoder` for words: a bidirectional GRU whose directions are averaged."""
    return gru(DIMENSION, bidirectional=True, directions="mean", **options)


def frozen_words(width: int) -> dict:
    """`encoder` of PVSE and PCME: a bidirectional GRU, with N(0, 1) for words not in GloVe."""
    return gru(width, bidirectional=True, init="normal", init_scale=1.0)


def hinge(
    mining: str = "hardest", margin: float = 0.2, reduction: str = "sum", **options: Any
) -> dict:
    """The task that these papers share; captions of the same image count as negatives."""
    options |= {"margin": margin, "mining": mining, "reduction": reduction}
    return base.pair_task("triplet", negatives="pair", **options)


def clipped_adam(learning_rate: float, decay_after: str) -> dict:
    """Adam with gradients clipped to a norm of 2; every interval divides the rate by ten."""
    schedule = {"name": "staircase", "rate": 0.1, "every": decay_after, "warmup_steps": 0}
    return base.adam(learning_rate, schedule, clip_norm=2.0)


def on_shapes(config: ConfigDict) -> ConfigDict:
    """An experiment on the built-in dataset, with the frozen CNN of `configs/quickstart.py`.

    It is large enough to learn something. The benchmark `shapes_matches` has all captions that are
    true of an image.
    """
    config = quick(config, words=64, width=64, head=128)
    config.name = config.name.replace("_quick", "_shapes")
    config.total_steps, config.batch_size, config.log_every = 500, 128, 100
    quickstart.use_cnn(config, batch_norm="running")
    config.data.image.size, config.data.text.max_length = 48, 24
    config.data.text_lengths = (32,)
    config.optimizer.schedule = {"name": "cosine", "warmup_steps": "up to 50"}
    config.evals.shapes.benchmarks = ("shapes_own", "shapes_matches")
    # Only at the last step.
    config.evals.shapes.every, config.checkpoint.every = 0, 250
    config.best_checkpoint.metric = "shapes/shapes_own/mean_recall@10"
    return config


def ambiguity() -> dict:
    """An evaluator of predicted uncertainty on the built-in dataset."""
    return {"type": "ambiguity", "benchmark": "shapes_matches", "batch_size": 512}


def quick(config: ConfigDict, **sizes: int) -> ConfigDict:
    """The built-in dataset without pixel augmentation, and the stored map of a small random CNN.

    The sizes are those of `shrink`.
    """
    config = base.on_built_in_dataset(config, steps=50)
    config.model.image.encoder = base.small_convnet()
    config.freeze, config.frozen_features.modalities = ("image/encoder/",), ("image",)
    config.data.image.size, config.data.image.augment = 64, None
    config.data.text.max_length, config.data.text_lengths = 32, ()
    if config.data.text.tokenizer != "wordpiece":
        config.data.text.min_count = 1
    return shrink(config, **sizes) if sizes else config


def shrink(config: ConfigDict, words: int, width: int, head: int) -> ConfigDict:
    """Sets the widths of words, of the recurrent layers, and of heads and projections with one."""
    config.model.text.encoder.update({"embedding_width": words, "width": width})
    for tower in (config.model.image, config.model.text):
        for section in filter(None, (tower.head, tower.projection)):
            if section.get("width"):
                section.width = head
    return config
