"""PVSE: K embeddings of every image and caption; a pair scores by the most similar two.

    python -m xmodal convert --tower=resnet --variant=torchvision --source=FILE \\
        --output=weights/resnet152
    python -m xmodal.main --config=configs/pvse.py \\
        --config.init_from.towers.image=weights/resnet152 \\
        --config.init_from.word_vectors.file=glove.840B.300d.txt

The default has K = 2; `k1` has one embedding and no regularizers. Both use the hardest negative in
the batch; `none` and `k1_none` use all negatives, and `semi_hard` and `k1_semi_hard` use the
hardest of those that score below the positive. An item whose negatives all score higher has none;
FaceNet's code takes the lowest of them
(`--config.tasks.i2t.loss.options.mining=semi_hard_or_easiest`). Which rule ECCV Caption used for
its rows is not known.

Song and Soleymani, "Polysemous Visual-Semantic Embedding for Cross-Modal Retrieval" (CVPR 2019),
and yalesong/pvse with the training settings in its README. Quirks of that code, each set by a value
below:
    text.head.source    "last": the backward direction of the sentence state has read one word
                        (`--legacy`, as in the released checkpoints); "state" has read them all
    encoder.batch_norm  "batch_frozen": the frozen CNN normalizes by the batch and updates the
                        running statistics; "running" leaves them unchanged
    mmd.distance        "norm": the kernel uses the distance; "squared" uses its square
    plateau.mode        "min" of a recall halves the learning rate about every 11 epochs in any
                        case; "max" halves it when the recall stops rising
The authors select the checkpoint on the test images and include their captions in the vocabulary;
here, both come from other images. The metric, also for the plateau, is mean R@10; theirs is the sum
of recalls. `itm.py` lists differences that all of these papers share.

Paper and README, COCO test, R@1/5/10:
    1K   K=1   I->T 66.7 91.0 96.2   T->I 53.5 85.1 92.7
         K=2   I->T 69.2 91.6 96.6   T->I 55.2 86.5 93.7
    5K   K=1   I->T 41.7 73.0 82.9   T->I 30.6 61.4 73.6
         K=2   I->T 45.2 74.3 84.5   T->I 32.4 63.0 75.0
"""

from functools import partial

from ml_collections import ConfigDict

from configs import base, itm


def get_config(argument: str = "") -> ConfigDict:
    """`k1`, `none`, `semi_hard`, `k1_none`, `k1_semi_hard`; `quick` on the built-in dataset."""
    config = itm.experiment("pvse")
    config.batch_size = 256
    image, words = itm.resnet(batch_norm="batch_frozen"), itm.frozen_words(itm.DIMENSION // 2)
    head = {"name": "pie", "width": itm.DIMENSION, "embeddings": 2}
    config.model.image = base.tower(image, head | {"source": "mean"})
    config.model.text = base.tower(words, head | {"source": "last", "linear": False})
    config.model.similarity = {"name": "max_cosine"}
    config.freeze = config.init_from.published = ("image/encoder/", "text/encoder/table")
    config.tasks = {
        "i2t": itm.hinge(margin=0.1, reduction="mean"),
        "diversity": base.pair_task("diversity", weight=0.1, negatives="none"),
        "mmd": base.pair_task("mmd", weight=0.01, negatives="none", distance="norm"),
    }
    config.data.text.min_count = 1
    config.optimizer = base.adam(2e-4, clip_norm=2.0, amsgrad=True)
    # Follows the metric of config.best_checkpoint.
    plateau = {"metric": "", "mode": "min", "factor": 0.5, "patience": 10, "min_rate": 1e-10}
    config.optimizer["plateau"] = plateau
    return base.choose(
        config, argument, k1=one_embedding, none=partial(mine, "all"),
        semi_hard=partial(mine, "semi_hard"),
        k1_none=lambda config: mine("all", one_embedding(config)),
        k1_semi_hard=lambda config: mine("semi_hard", one_embedding(config)),
        shapes=ambiguous_shapes,
        shapes_k1=lambda config: shapes(one_embedding(config)),
        shapes_k1_none=lambda config: shapes(mine("all", one_embedding(config))),
        shapes_k1_semi_hard=lambda config: shapes(mine("semi_hard", one_embedding(config))),
        quick=quick, quick_k1=lambda config: quick(one_embedding(config)),
    )  # fmt: skip


def one_embedding(config: ConfigDict) -> ConfigDict:
    """K = 1, compared by cosine; as in the original code, without either regularizer."""
    config.name += "_k1"
    for modality in ("image", "text"):
        config.model[modality].head.embeddings = 1
    config.model.similarity = {"name": "cosine"}
    config.tasks = {"i2t": config.tasks.i2t.to_dict()}
    return config


def mine(mining: str, config: ConfigDict) -> ConfigDict:
    """Changes the negatives; with all of them, the loss is the mean over B x B entries."""
    config.name += f"_{mining}"
    config.tasks.i2t.loss.options.mining = mining
    return config


def shapes(config: ConfigDict) -> ConfigDict:
    """Small heads on the built-in dataset, whose benchmark `shapes_matches` has many positives.

    The first 100 steps use all negatives: with the hardest from the first step on, all items
    collapse to one point, where the loss is twice the margin.
    """
    config = itm.on_shapes(config)
    options = config.tasks.i2t.loss.options
    if options.mining != "all":
        options.all_share = {"schedule": "piecewise", "values": {"0": 1.0, "100": 0.0}}
    return config


def ambiguous_shapes(config: ConfigDict) -> ConfigDict:
    """Also correlates the spread of an item's embeddings with its number of positives."""
    config = shapes(config)
    config.evals.ambiguity = itm.ambiguity()
    return config


def quick(config: ConfigDict) -> ConfigDict:
    """Stored maps of a small random CNN, small heads, and trainable word vectors."""
    return itm.quick(config, words=32, width=32, head=64)
