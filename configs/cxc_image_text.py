"""DE_I2T of the Crisscrossed Captions paper, trained on COCO.

    python -m xmodal.main --config=configs/cxc_image_text.py --config.data.manual_dir=DIR \\
        --config.init_from.run=RUN

RUN is a run of cc_pretrain.py, whose header explains how to start from published weights; this run
uses the vocabulary of RUN. Without such a run, start directly from the published weights:
    --config.init_from.towers.image=weights/efficientnet_b4
    --config.init_from.towers.text=weights/bert

Paper, from Conceptual Captions weights, 2,048 pairs on 32 TPU v3 cores, COCO 5k test, R@1/5/10:
  CxC labels   I->T 53.9 82.7 91.2   T->I 39.8 70.2 80.9   T->T 26.0 47.1 57.5   I->I 38.3 74.1 85.0
  correlations STS 50.9 +-0.6   SIS 81.3 +-0.7   SITS 61.6 +-1.4
The CxC labels and correlations need --config.data.ratings_dir=DIR, the folder of its CSV files.
"""

from ml_collections import ConfigDict

from configs import base, cxc


def get_config(argument: str = "") -> ConfigDict:
    """`quick` runs on the built-in dataset."""
    config = cxc.experiment("cxc_image_text")
    # Every caption is a separate example, as in the released recipe.
    config.data.examples = "pairs"
    config.tasks = {"i2t": cxc.image_text()}
    return base.variant(config, argument, quick=cxc.quick)
