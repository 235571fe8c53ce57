"""DE_T2T+I2T of the Crisscrossed Captions paper: images, captions and caption pairs together.

    python -m xmodal.main --config=configs/cxc_multitask.py --config.data.manual_dir=DIR \\
        --config.init_from.run=RUN

RUN is a run of cc_pretrain.py, whose header explains how to start from published weights; this run
uses the vocabulary of RUN. Without such a run, start directly from the published weights:
    --config.init_from.towers.image=weights/efficientnet_b4
    --config.init_from.towers.text=weights/bert

Paper, from Conceptual Captions weights, 2,048 pairs on 32 TPU v3 cores, COCO 5k test, R@1/5/10:
  CxC labels   I->T 55.9 84.2 91.8   T->I 41.7 72.3 83.0   T->T 42.4 64.9 74.0   I->I 38.5 73.6 84.9
  correlations STS 74.2 +-0.4   SIS 74.5 +-0.9   SITS 61.9 +-1.3
The CxC labels and correlations need --config.data.ratings_dir=DIR, the folder of its CSV files.
`as_printed` follows the print where it differs from the released code (configs/cxc.py has a table),
and continues from cc_pretrain.py:as_printed. The released code has no such experiment, and the
paper does not say how captions are sampled: here, every example is an image with two captions.
The weight c of the text-text loss (equation 2) is not published. It is 1 here; to search for a
better value, sweep over tasks.t2t.weight.
"""

from ml_collections import ConfigDict

from configs import base, cxc


def get_config(argument: str = "") -> ConfigDict:
    """Takes variants joined by commas: `as_printed`, `quick` on the built-in dataset."""
    config = cxc.experiment("cxc_multitask")
    # Two captions of each image per step: the tower sees as many images as for DE_I2T.
    config.data.captions_per_image = 2
    config.tasks = {"i2t": cxc.image_text(), "t2t": cxc.text_text()}
    return base.variant(config, argument, **cxc.VARIANTS)
