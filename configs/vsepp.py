"""VSE++: a GRU against frozen or stored CNN features, hardest negatives of the batch.

    python -m xmodal.convert_weights --tower=resnet --variant=torchvision --source=FILE \\
        --output=weights/resnet152
    python -m xmodal.main --config=configs/vsepp.py \\
        --config.init_from.towers.image=weights/resnet152

Faghri et al., "VSE++: Improving Visual-Semantic Embeddings with Hard Negatives" (2018), and
fartashf/vsepp. Captions of the same image count as negatives, as in that code; batch normalization
of the CNN uses its running statistics throughout (the published runs are in evaluation mode for
most of their steps). The vocabulary is of the training captions alone; the authors' includes those
of the test images.

Paper, ResNet-152 fine-tuned, COCO test, R@1/5/10:
    1K   I->T 64.6 90.0 95.7   T->I 52.0 84.3 92.0
    5K   I->T 41.3 71.1 81.2   T->I 30.3 59.4 72.4
This config is its first stage, with the CNN frozen.
"""

from ml_collections import ConfigDict

from configs import base

DIMENSION = 1024


def get_config(argument: str = "") -> ConfigDict:
    """`quick` runs on the embedded dataset."""
    config = base.base("vsepp")
    config.total_steps = "30 epochs"
    config.model.image = {
        "encoder": {
            "name": "resnet",
            "depth": 152,
            "variant": "torchvision",
            "batch_norm": "running",
            "statistics": "global",
        },
        "head": {"name": "mean"},
        "projection": {"width": DIMENSION, "normalize_input": True},
    }
    config.model.text = {
        "encoder": {
            "name": "rnn",
            "cell": "gru",
            "vocab_size": 0,
            "embedding_width": 300,
            "width": DIMENSION,
            "layers": 1,
            "bidirectional": False,
            "dropout": 0.0,
            "init": "uniform",
            "init_scale": 0.1,
        },
        "head": {"name": "last"},
        "projection": None,
    }
    config.model.similarity = {"name": "cosine"}
    config.freeze = ("image/encoder/",)
    config.tasks = {
        "i2t": base.task(
            "image", "caption_0", "triplet",
            negatives="pair", margin=0.2, mining="hardest", reduction="sum",
        )
    }  # fmt: skip
    config.data = base.dataset("coco_captions")
    config.data.examples = "pairs"
    config.data.image.augment = {
        "area": (0.08, 1.0), "aspect": (0.75, 1.33), "flip": True, "color": False, "min_area": 0.0
    }  # fmt: skip
    config.data.text = base.words("nltk", min_count=4, max_length=64, markers="sentence")
    schedule = {"name": "staircase", "rate": 0.1, "every": "15 epochs", "warmup_steps": 0}
    config.optimizer = base.adam(2e-4, schedule)
    config.optimizer["clip_norm"] = 2.0
    config.evals = {"coco": base.boards(every="1 epochs")}
    config.select.metric = "coco/coco5k/mean_recall@10"
    config.checkpoint.every = "1 epochs"
    return base.variant(config, argument, quick=quick)


def quick(config: ConfigDict) -> ConfigDict:
    """Stored features of a small random CNN, and a small GRU."""
    config = base.on_embedded_dataset(config, steps=50)
    config.model.image.encoder = base.small_convnet()
    config.frozen_features.sides = ("image",)
    config.data.image.augment = None
    config.model.image.projection.width = 64
    config.model.text.encoder.update({"embedding_width": 32, "width": 64})
    config.data.text.min_count, config.data.text.max_length = 1, 32
    return config
