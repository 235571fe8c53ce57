"""VSE0: VSE++ with all negatives of the batch and an image vector of any length.

    python -m xmodal.main --config=configs/vse0.py \\
        --config.init_from.towers.image=weights/resnet152
    python -m xmodal.main --config=configs/vse0.py:finetuned --config.init_from.run=RUN

As in the VSE0 rows of fartashf/vsepp, whose command has `--no_imgnorm`, the score is an inner
product with a text vector of length 1, both in the loss and in the evaluation. Everything else is
as in vsepp.py.

Reported by ECCV Caption, trained by its authors (settings unknown), means of both directions:
    ECCV mAP@R 22.67, R-Precision 33.27, R@1 55.55   COCO 5K R@1 22.27   CxC R@1 24.24   PMRP 46.95
"""

from ml_collections import ConfigDict

from configs import base, itm, vsepp


def get_config(argument: str = "") -> ConfigDict:
    """`finetuned` is the second stage; `quick` runs on the built-in dataset."""
    config = vsepp.get_config()
    config.name = "vse0"
    config.model.text.projection = {"normalize": True}
    config.model.similarity = {"name": "dot"}
    config.tasks = {"i2t": itm.hinge("all")}
    return base.variant(config, argument, finetuned=vsepp.finetuned, quick=vsepp.quick)
