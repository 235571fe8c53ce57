"""VSE++: a GRU against CNN features, with the hardest negatives in the batch.

    python -m xmodal convert --tower=resnet --variant=torchvision --source=FILE \\
        --output=weights/resnet152
    python -m xmodal.main --config=configs/vsepp.py \\
        --config.init_from.towers.image=weights/resnet152
    python -m xmodal.main --config=configs/vsepp.py:finetuned --config.init_from.run=RUN

The first run keeps the CNN frozen; `:finetuned` continues from it and also trains the CNN, with a
tenth of the learning rate, a new optimizer and a new schedule, for 15 more epochs (as the authors
advise).

Faghri et al., "VSE++: Improving Visual-Semantic Embeddings with Hard Negatives" (2018), and
fartashf/vsepp. As in that code, captions of the same image count as negatives. The CNN's batch
normalization always uses running statistics (the published runs are in evaluation mode for most of
their steps). The vocabulary comes only from the training captions; the authors' also includes those
of the test images. The checkpoint is the best by mean R@10 on all 5,000 validation images; theirs
is the best by the sum of recalls on 1,000 (`--config.best_checkpoint.metric=coco/coco5k/rsum` uses
that sum). `itm.py` lists differences that all of these papers share.

Paper, ResNet-152 fine-tuned, COCO test, R@1/5/10:
    1K   I->T 64.6 90.0 95.7   T->I 52.0 84.3 92.0
    5K   I->T 41.3 71.1 81.2   T->I 30.3 59.4 72.4
"""

from ml_collections import ConfigDict

from configs import base, itm


def get_config(argument: str = "") -> ConfigDict:
    """`finetuned` is the second stage; `quick` runs on the built-in dataset."""
    config = itm.experiment("vsepp")
    config.model.image = base.tower(itm.resnet(), width=itm.DIMENSION, normalize_input=True)
    config.model.text = base.tower(itm.gru(itm.DIMENSION), "lasttoken")
    config.freeze = config.init_from.published = ("image/encoder/",)
    config.tasks = {"i2t": itm.hinge()}
    config.optimizer = itm.clipped_adam(2e-4, "15 epochs")
    return base.variant(
        config, argument, finetuned=finetuned, quick=quick,
        quick_finetuned=lambda config: finetuned(quick(config)),
    )  # fmt: skip


def finetuned(config: ConfigDict) -> ConfigDict:
    """The second stage: trains the CNN, too, with a new optimizer."""
    config.total_steps = "15 epochs"
    config.freeze, config.frozen_features.modalities = (), ()
    config.optimizer.learning_rate = 2e-5
    config.init_from.optimizer = False
    return config


def quick(config: ConfigDict) -> ConfigDict:
    """Stored features of a small random CNN, and a small GRU."""
    return itm.quick(config, words=32, width=64, head=64)
