"""VSE-infinity: learned pooling of regions or grid cells and of words, BERT or a BiGRU.

    python -m xmodal.main --config=configs/vse_infinity.py \\
        --config.data.manual_dir=FOLDER --config.init_from.towers.text=weights/bert_base
    python -m xmodal convert --tower=resnet --variant=vse_infinity --source=FILE \\
        --output=weights/resnet152_grids
    python -m xmodal.main --config=configs/vse_infinity.py:grids \\
        --config.init_from.towers.image=weights/resnet152_grids ...

The weights are torchvision's; `wsl` needs resnext101_32x8d_wsl with --variant=torchvision.

| variant           | images                         | text  |
| ----------------- | ------------------------------ | ----- |
| regions (or none) | 36 regions                     | BERT  |
| regions_gru       | 36 regions                     | BiGRU |
| grids             | ResNet-152, 512 pixels         | BERT  |
| grids_gru         | ResNet-152, 512 pixels         | BiGRU |
| wsl               | ResNeXt-101 32x8d, 512 pixels  | BERT  |

Chen et al., "Learning the Best Pooling Strategy for Visual Semantic Embedding" (CVPR 2021), and
woodfrog/vse_infty. Epoch 0 uses all negatives, later ones the hardest; with grids, the CNN is
frozen in epoch 0, and the weight of the loss rises from 0 to 1 over epoch 1. Training leaves out a
fifth of the regions, or up to a fifth of the cells, and masks, replaces or deletes a fifth of the
words. Batch normalization in the regions' MLP includes the zero rows of left-out regions.
Differences from that code: batch statistics are computed over the whole batch instead of on each of
four GPUs; BERT attends to a [PAD] that was drawn to replace a word; the best checkpoint is selected
by mean R@10 on all validation images, theirs by the sum of recalls on 1,000. `itm.py` lists
differences that all of these papers share.

Paper, COCO test, R@1/5/10, single models:
    regions    1K   I->T 79.7 96.4 98.9   T->I 64.8 91.4 96.3
               5K   I->T 58.3 85.3 92.3   T->I 42.4 72.7 83.2
    regions_gru 1K  I->T 78.5 96.0 98.7   T->I 61.7 90.3 95.6
               5K   I->T 56.6 83.6 91.4   T->I 39.3 69.9 81.1
    grids_gru  1K   I->T 76.5 95.3 98.5   T->I 62.9 90.6 95.8
               5K   I->T 55.1 81.9 89.9   T->I 40.9 70.6 81.5
    wsl        1K   I->T 84.5 98.1 99.4   T->I 72.0 93.9 97.5
               5K   I->T 66.4 89.3 94.6   T->I 51.6 79.3 87.6
    wsl, the mean of two models' scores (`eval_main --run=A,B`)
               1K   I->T 85.6 98.0 99.4   T->I 73.1 94.3 97.7
               5K   I->T 68.1 90.2 95.2   T->I 52.7 80.2 88.3
"""

from ml_collections import ConfigDict

from configs import base, itm

CHANGED_WORDS = {"change": 0.2, "mask": 0.5, "replace": 0.1}


def get_config(argument: str = "") -> ConfigDict:
    """See the table; `quick` and `quick_grids` run on the built-in dataset."""
    return base.choose(
        experiment(), argument or "regions",
        regions=lambda config: regions(bert(config)),
        regions_gru=lambda config: regions(gru(config, decay=1e-2)),
        grids=lambda config: grids(bert(config)),
        grids_gru=lambda config: grids(gru(config)),
        wsl=lambda config: wsl(grids(bert(config))),
        quick=lambda config: quick(regions(bert(config))),
        quick_grids=lambda config: quick_grids(grids(gru(config))),
    )  # fmt: skip


def experiment() -> ConfigDict:
    """The training, without either side of the model."""
    config = itm.experiment("vse_infinity")
    config.total_steps = "25 epochs"
    late = {"schedule": "piecewise", "values": {"0": 1.0, "1 epochs": 0.0}}
    config.tasks = {"i2t": itm.hinge("hardest", all_share=late)}
    config.optimizer = itm.clipped_adam(5e-4, "15 epochs")
    config.optimizer.update({"name": "adamw", "weight_decay": {"rate": 1e-4}})
    return config


def regions(config: ConfigDict) -> ConfigDict:
    """36 regions through a linear layer with a parallel MLP."""
    head = {"name": "gpo", "width": itm.DIMENSION, "mlp": itm.DIMENSION // 2, "drop": 0.2}
    config.model.image = base.tower(itm.regions(), head)
    return itm.use_regions(config)


def grids(config: ConfigDict) -> ConfigDict:
    """The 16 x 16 cells of 512-pixel pictures; the CNN is trained from epoch 1 on."""
    head = {"name": "gpo", "width": itm.DIMENSION, "drop": 0.2, "drop_varies": True}
    config.model.image = base.tower(itm.resnet(variant="vse_infinity"), head)
    config.init_from.published += ("image/encoder/",)
    # A fraction of both sides, resized to a square like the whole picture in evaluation.
    config.data.image = base.pixels(512, {"sides": (0.6, 1.0), "flip": True, "color": False})
    cnn = {"pattern": "image/encoder/", "rate": 0.1, "frozen_until": "1 epochs"}
    config.optimizer.groups.cnn = cnn
    rise = {"schedule": "linear", "from": 0.0, "to": 1.0, "start": "1 epochs", "end": "2 epochs"}
    config.tasks.i2t.weight = rise | {"before": 1.0}
    return config


def wsl(config: ConfigDict) -> ConfigDict:
    """ResNeXt-101 32x8d, trained on Instagram hashtags, instead of ResNet-152."""
    resnext = {"depth": 101, "cardinality": 32, "group_width": 8}
    config.model.image.encoder.update({"variant": "torchvision", **resnext})
    config.optimizer.groups.cnn.rate = 0.01
    return config


def bert(config: ConfigDict) -> ConfigDict:
    """BERT-Base, trained with a tenth of the learning rate; all its tokens are pooled."""
    head = {"name": "gpo", "width": itm.DIMENSION, "init": "torch"}
    config.model.text = base.tower(base.bert(dropout=0.1), head)
    config.init_from.published += ("text/encoder/",)
    config.optimizer.groups.bert = {"pattern": "text/encoder/", "rate": 0.1}
    config.data.text = base.wordpiece(29_000, max_length=64, augment=dict(CHANGED_WORDS))
    return config


def gru(config: ConfigDict, decay: float = 1e-4) -> ConfigDict:
    """A BiGRU with averaged directions; augmentation changes special tokens like words.

    The released region model with a BiGRU was trained with torch's default decay of 0.01.
    """
    config.model.text = base.tower(itm.averaged_gru(), "gpo")
    config.optimizer.weight_decay.rate = decay
    config.data.text.augment = CHANGED_WORDS | {"change_special_tokens": True}
    return config


def quick(config: ConfigDict) -> ConfigDict:
    """Stored cells of a small random CNN instead of regions, and a small BERT."""
    config = itm.quick(_short(config))
    config.model.image.head.update({"width": 64, "mlp": 32})
    config.model.text.head.width = 64
    sizes = {"width": 64, "depth": 1, "heads": 2, "mlp_dim": 128, "max_positions": 32}
    config.model.text.encoder.update({"vocab_size": 0, **sizes})
    config.data.text.vocabulary_size = 1000
    return config


def quick_grids(config: ConfigDict) -> ConfigDict:
    """The cells of a small CNN that is trained from step 1 on, and a small BiGRU."""
    config = itm.quick(_short(config), words=32, width=64, head=64)
    config.freeze, config.frozen_features.modalities = (), ()
    return config


def _short(config: ConfigDict) -> ConfigDict:
    """Moves the changes between epochs to the first step."""
    config.tasks.i2t.loss.options.all_share["values"] = {"0": 1.0, "1": 0.0}
    if "cnn" in config.optimizer.groups:
        config.optimizer.groups.cnn.frozen_until = 1
        config.tasks.i2t.weight.update({"start": 1, "end": 4})
    return config
