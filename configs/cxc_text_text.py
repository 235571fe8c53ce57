"""DE_T2T of the Crisscrossed Captions paper: captions of one image against each other.

    python -m xmodal.main --config=configs/cxc_text_text.py

Paper, COCO 5k test, R@1/5/10: T->T 41.7 64.4 73.4 (CxC labels), STS 72.9 +-0.4.
The CxC labels and correlations need --config.data.ratings_dir=DIR, the folder of its CSV files.
How it was pretrained is not printed (Conceptual Captions has one caption per image): the new
layers start at random here, with the pretraining's learning rate.
"""

from ml_collections import ConfigDict

from configs import common


def get_config(argument: str = "") -> ConfigDict:
    """`quick` runs on the embedded dataset."""
    config = common.experiment("cxc_text_text")
    config.model.image = None
    config.model.text = common.frozen_bert(projection=None)
    config.data.image = None
    config.data.captions_per_image = 2
    config.l2 = None
    config.optimizer = common.cxc_adam(1e-4)
    config.tasks = {"t2t": common.text_text()}
    return common.variant(config, argument)
