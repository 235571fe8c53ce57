"""CMCM on Clue: retrieval that also predicts how a caption relates to its image.

    python -m xmodal.convert_weights --tower=resnet --variant=torchvision --source=FILE \\
        --output=weights/resnet50
    python -m xmodal.main --config=configs/cmcm_clue.py --config.data.manual_dir=DIR \\
        --config.init_from.towers.image=weights/resnet50

Alikhani et al., "Cross-Modal Coherence for Text-to-Image Retrieval" (AAAI 2022), with the losses of
klory/Cross-Modal-Coherence-for-Text-to-Image-Retrieval: hardest negatives over both modalities
by distance, and weighted binary cross-entropy of six relations.

Paper, pools of 500 test pairs: MedR 18.7 +-1.6, R@1/5/10 13.8 31.6 40.6 (refined similarity).
"""

from ml_collections import ConfigDict

from configs import base

DIMENSION = 1024
RELATIONS = 6
# Negatives to positives in training: Visible, Subjective, Action, Story, Meta, Irrelevant.
POSITIVE_WEIGHTS = (0.485, 14.117, 5.379, 3.122, 1.558, 10.518)


def get_config(argument: str = "") -> ConfigDict:
    """`quick` runs on the embedded dataset."""
    config = base.base("cmcm_clue")
    config.total_steps, config.batch_size, config.log_every = 10_000, 32, 100
    projection = {"width": DIMENSION, "batch_norm": True, "normalize": True}
    config.model.image = {
        "encoder": {"name": "resnet", "depth": 50, "variant": "torchvision"},
        "head": {"name": "mean"},
        "projection": dict(projection),
    }
    config.model.text = {
        "encoder": {
            "name": "rnn",
            "cell": "lstm",
            "vocab_size": 0,
            "embedding_width": 300,
            "width": 300,
            "layers": 1,
            "bidirectional": True,
            "dropout": 0.0,
        },
        "head": {"name": "attention"},
        "projection": dict(projection),
    }
    config.model.similarity = {"name": "cosine"}
    retrieval = base.task("image", "caption_0", "distance_triplet", negatives="image", margin=0.3)
    retrieval["similarity"] = {"name": "euclidean"}
    relations = base.task(
        "image", "caption_0", "relation_bce",
        weight=0.1, negatives="none", pos_weight=POSITIVE_WEIGHTS, select=tuple(range(RELATIONS)),
    )  # fmt: skip
    relations["loss"]["inputs"] = ["relations"]
    relations["loss"]["module"] = {"relations": RELATIONS}
    config.tasks = {"t2i": retrieval, "relations": relations}
    config.init_from.published = ("image/encoder/",)
    config.data = base.dataset("clue")
    config.data.labels = ("relations",)
    config.data.image.augment = {
        "area": (0.5, 1.0), "aspect": (1.0, 1.0), "flip": False, "color": False
    }  # fmt: skip
    config.data.text = base.words("ptb", min_count=1, max_length=40, lower_case=False)
    config.optimizer = base.adam(1e-4, b1=0.5, b2=0.999)
    config.optimizer["plateau"] = {
        "metric": "pools/t2i/median_rank", "mode": "min", "factor": 0.1, "patience": 5
    }  # fmt: skip
    config.evals = {"pools": pools(every=100), "relations": average_precision(every=500)}
    config.select = {"metric": "pools/t2i/median_rank", "mode": "min"}
    config.checkpoint.every = 500
    return base.variant(config, argument, quick=quick)


def pools(every: int) -> dict:
    """An evaluator of retrieval from random pools of 500 pairs, ten times."""
    return {
        "type": "pools",
        "data": None,
        "split": "validation",
        "final_split": "test",
        "every": every,
        "batch_size": 128,
        "size": 500,
        "repeats": 10,
        "seed": 0,
    }


def average_precision(every: int) -> dict:
    """An evaluator of the relations that the task predicts for true pairs."""
    return {
        "type": "relations",
        "data": None,
        "split": "validation",
        "final_split": "test",
        "every": every,
        "batch_size": 128,
        "task": "relations",
        "labels": "relations",
        # The dataset has four more, which the paper leaves out.
        "select": tuple(range(RELATIONS)),
    }


def quick(config: ConfigDict) -> ConfigDict:
    """Small towers; the relations are those of the embedded dataset's captions."""
    evals = config.evals
    config = base.on_embedded_dataset(config, steps=50)
    config.data.config = "relations"
    config.model.image.encoder = base.small_convnet()
    config.model.text.encoder.update({"embedding_width": 32, "width": 32})
    for side in ("image", "text"):
        config.model[side].projection.width = 64
    config.data.image.augment = None
    config.data.text.max_length = 32
    options = config.tasks.relations.loss
    options.options.pos_weight, options.options.select, options.module.relations = None, None, 4
    config.evals = evals
    config.evals.pools.every = config.evals.relations.every = 25
    config.evals.pools.size, config.evals.pools.repeats = 20, 3
    config.evals.relations.select = ()
    config.select = {"metric": "pools/t2i/median_rank", "mode": "min"}
    return config
