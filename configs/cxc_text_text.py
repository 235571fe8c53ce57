"""DE_T2T of the Crisscrossed Captions paper: captions of one image against each other.

    python -m xmodal convert --tower=bert --source=FOLDER --output=weights/bert
    python -m xmodal.main --config=configs/cxc_text_text.py --config.data.manual_dir=DIR \\
        --config.init_from.towers.text=weights/bert

Paper, COCO 5k test, R@1/5/10: T->T 41.7 64.4 73.4 (CxC labels), STS 72.9 +-0.4.
The CxC labels and correlations need --config.data.ratings_dir=DIR, the folder of its CSV files.
The paper does not say how it was pretrained (Conceptual Captions has one caption per image). Here,
the new layers start at random, with the learning rate used for pretraining.

`minilm` starts from a small sentence encoder, all-MiniLM-L6-v2, and trains its three upper layers
on stored features of the three lower ones:

    python -m xmodal convert --tower=bert --source=FOLDER --output=weights/minilm
    python -m xmodal.main --config=configs/cxc_text_text.py:minilm \\
        --config.data.manual_dir=DIR --config.data.ratings_dir=DIR

Reached, seed 0, on 71,891 captions of 14,369 images (an eighth of the paper's training
data), full CxC test split, T->T R@1/5/10, median rank, STS:

    the encoder itself                               36.2 58.0 67.6, 3   75.7 +-0.4
    300 steps                                        39.8 62.2 71.4, 3   77.3 +-0.4
    900 steps, rate 3e-4, temperature 0.04           40.2 62.9 72.2, 3   76.1 +-0.4
    DE_T2T+I2T, the paper's best                     42.4 64.9 74.0, 2   74.2 +-0.4

300 steps take 35 minutes of CPU time, including the features of the lower layers, and 900 steps
take 94. The longer run memorizes its captions: validation R@1 is 48.2 after the shorter run, and
48.9 after both 600 and 900 steps. Its last weights, moved a quarter of the way back to the
encoder's own, come closest: 40.7 63.5 72.9 and STS 78.4; there is no option for this. The
encoder's own training data include COCO captions.
"""

from ml_collections import ConfigDict

from configs import base, cxc


def get_config(argument: str = "") -> ConfigDict:
    """`quick` runs on the built-in dataset, `minilm` starts from a sentence encoder."""
    config = cxc.experiment("cxc_text_text")
    config.model.image = None
    config.model.text = cxc.frozen_bert(projection=None)
    config.data.image = None
    config.init_from.published = ("text/encoder/",)
    config.data.config = "captions"
    config.data.captions_per_image = 2
    # Hold all captions of 68 and 94 % of batches of 32 images.
    config.data.text_lengths = (24, 32)
    config.l2 = None
    config.optimizer = cxc.skipping_adam(1e-4)
    config.tasks = {"t2t": cxc.text_text()}
    return base.variant(config, argument, quick=cxc.quick, minilm=minilm)


def minilm(config: ConfigDict) -> ConfigDict:
    """Trains three of six layers; the others are computed once for all captions."""
    config.name = "cxc_text_text_minilm"
    config.total_steps, config.batch_size, config.log_every = 300, 256, 10
    config.model.text = cxc.minilm(lower_depth=3)
    config.model.similarity = {"name": "cosine", "temperature": 0.05}
    config.init_from.towers.text = "weights/minilm"
    # 2.4 % of the captions are longer and are truncated.
    config.data.text.max_length = 20
    config.freeze = ("text/encoder/(?!layers/)",)
    config.frozen_features.sides = ("text",)
    config.optimizer = base.adam(2e-4, {"name": "cosine", "warmup_steps": "up to 20"})
    config.optimizer.update({"name": "adamw", "weight_decay": {"rate": 0.01}, "clip_norm": 1.0})
    config.evals.coco.every, config.checkpoint.every = 100, 50
    config.select.metric = "coco/coco5k/t2t/recall@1"
    return config
