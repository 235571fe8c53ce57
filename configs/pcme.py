"""PCME: every image and caption is a distribution, and pairs match with a probability.

    python -m xmodal.convert_weights --tower=resnet --variant=torchvision --source=FILE \\
        --output=weights/resnet152
    python -m xmodal.main --config=configs/pcme.py \\
        --config.init_from.towers.image=weights/resnet152

Chun et al., "Probabilistic Embeddings for Cross-Modal Retrieval" (CVPR 2021), and naver-ai/pcme:
stage 1, with the CNN frozen. The frozen CNN still normalizes with batch statistics and updates the
running ones, as that code does. The scale and shift of the match probability are learned, outside
of the clip, in the similarity. The paper's word vectors are GloVe's, frozen in this stage; these
start at random and train.

Paper, COCO 1K R@1: I->T 68.8, T->I 54.6.
"""

from ml_collections import ConfigDict

from configs import base

DIMENSION = 1024


def get_config(argument: str = "") -> ConfigDict:
    """`quick` runs on the embedded dataset."""
    config = base.base("pcme")
    config.total_steps = "30 epochs"
    head = {"name": "gaussian", "width": DIMENSION, "samples": 7, "seed": 0}
    config.model.image = {
        "encoder": {
            "name": "resnet",
            "depth": 152,
            "variant": "torchvision",
            "batch_norm": "batch_frozen",
            "statistics": "global",
        },
        "head": dict(head),
        "projection": None,
    }
    config.model.text = {
        "encoder": {
            "name": "rnn",
            "cell": "gru",
            "vocab_size": 0,
            "embedding_width": 300,
            "width": DIMENSION // 2,
            "layers": 1,
            "bidirectional": True,
            "dropout": 0.0,
        },
        # Statistics come from a GRU of their own, gathered at the last word.
        "head": head | {"source": "last", "linear": False, "recurrent": True},
        "projection": None,
    }
    config.model.similarity = {"name": "match_probability"}
    config.freeze = ("image/encoder/",)
    config.init_from.published = ("image/encoder/", "text/encoder/table")
    config.tasks = {"i2t": base.task("image", "caption_0", "soft_contrastive", negatives="pair")}
    config.data = base.dataset("coco_captions")
    config.data.examples = "pairs"
    config.data.image.augment = {
        "area": (0.08, 1.0), "aspect": (0.75, 1.33), "flip": True, "color": False, "min_area": 0.0
    }  # fmt: skip
    config.data.text = base.words(
        "nltk", min_count=1, max_length=64, markers="sentence",
        augment={"unknown": 0.1, "delete": 0.1},
    )  # fmt: skip
    config.optimizer = base.adam(2e-4, {"name": "cosine", "every": "1 epochs", "warmup_steps": 0})
    config.optimizer["name"], config.optimizer["clip_norm"] = "adamp", 2.0
    config.optimizer["groups"] = {"similarity": {"pattern": "similarity/", "clip": False}}
    config.evals = {"coco": base.boards(every="10 epochs")}
    config.select.metric = "coco/coco5k/mean_recall@10"
    config.checkpoint.every = "1 epochs"
    return base.variant(config, argument, quick=quick)


def quick(config: ConfigDict) -> ConfigDict:
    """A small random CNN, and small Gaussian heads."""
    config = base.on_embedded_dataset(config, steps=50)
    config.model.image.encoder = base.small_convnet(batch_norm="batch_frozen")
    config.model.text.encoder.update({"embedding_width": 32, "width": 16})
    for side in ("image", "text"):
        config.model[side].head.update({"width": 32, "samples": 3})
    config.data.image.augment = None
    config.data.text.max_length = 32
    return config
