"""DE_I2T of the Crisscrossed Captions paper, trained on COCO.

    python -m xmodal.main --config=configs/cxc_image_text.py --config.data.manual_dir=DIR \\
        --config.init_from.run=RUN

RUN is a run of cc_pretrain.py, whose header explains how to start from published weights; this run
uses the vocabulary of RUN. Without such a run, start directly from the published weights:
    --config.init_from.towers.image=weights/efficientnet_b4
    --config.init_from.towers.text=weights/bert

Variants, joined by commas: `small_batch` (128 pairs), `no_pretraining` (starts from the published
towers) and `resnet152` (TF-Hub's, 224 pixels) are the ablations of the paper's appendix; the first
and the last continue from the same variants of cc_pretrain.py. `as_printed` follows the print where
it differs from the released code (configs/cxc.py has a table), and continues from
cc_pretrain.py:as_printed. `quick` runs on the built-in dataset.

The paper does not say how captions are sampled; as in the released code, every caption is a
separate example, so that an image is seen about five times per epoch.

Paper, from Conceptual Captions weights, 2,048 pairs on 32 TPU v3 cores, COCO 5k test, R@1/5/10:
  CxC labels   I->T 53.9 82.7 91.2   T->I 39.8 70.2 80.9   T->T 26.0 47.1 57.5   I->I 38.3 74.1 85.0
  correlations STS 50.9 +-0.6   SIS 81.3 +-0.7   SITS 61.6 +-1.4
The CxC labels and correlations need --config.data.ratings_dir=DIR, the folder of its CSV files.
"""

from ml_collections import ConfigDict

from configs import base, cxc


def get_config(argument: str = "") -> ConfigDict:
    """Takes variants joined by commas."""
    config = cxc.experiment("cxc_image_text")
    config.data.examples = "pairs"
    config.tasks = {"i2t": cxc.image_text()}
    return base.variant(config, argument, **cxc.VARIANTS, no_pretraining=no_pretraining)


def no_pretraining(config: ConfigDict) -> ConfigDict:
    """Starts from the published towers."""
    config.init_from.towers = {"image": "weights/efficientnet_b4", "text": "weights/bert"}
    return config
