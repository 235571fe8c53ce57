"""DE_T2T of the Crisscrossed Captions paper: captions of one image against each other.

    python -m xmodal convert --tower=bert --source=FOLDER --output=weights/bert
    python -m xmodal.main --config=configs/cxc_text_text.py --config.data.manual_dir=DIR \\
        --config.init_from.towers.text=weights/bert

Paper, COCO 5k test, R@1/5/10: T->T 41.7 64.4 73.4 (CxC labels), STS 72.9 +-0.4.
The CxC labels and correlations need --config.data.ratings_dir=DIR, the folder of its CSV files.
The paper does not say how it was pretrained (Conceptual Captions has one caption per image). Here,
the new layers start at random, with the learning rate used for pretraining. Nor does it say how
captions are sampled: here, every example is two captions of one image. `as_printed` follows the
print where it differs from the released code (configs/cxc.py has a table).

`minilm` starts from a small sentence encoder, all-MiniLM-L6-v2, and trains its three upper layers
on stored features of the three lower ones:

    python -m xmodal convert --tower=bert --source=FOLDER --output=weights/minilm
    python -m xmodal.main --config=configs/cxc_text_text.py:minilm \\
        --config.data.manual_dir=DIR --config.data.ratings_dir=DIR

300 steps take 35 minutes of CPU time. Results: configs/results.md. The encoder's own training data
include COCO captions.
"""

from ml_collections import ConfigDict

from configs import base, cxc


def get_config(argument: str = "") -> ConfigDict:
    """`quick` runs on the built-in dataset, `minilm` starts from a sentence encoder."""
    config = cxc.experiment("cxc_text_text")
    config.model.image = config.data.image = config.l2 = None
    config.model.text = cxc.frozen_bert()
    config.init_from.published = ("text/encoder/",)
    config.data.config = "captions"
    config.data.captions_per_image = 2
    # Hold all captions of 68 and 94 % of batches of 32 images.
    config.data.text_lengths = (24, 32)
    config.optimizer = cxc.skipping_adam(1e-4)
    config.tasks = {"t2t": cxc.text_text()}
    return base.variant(config, argument, minilm=minilm, as_printed=cxc.as_printed, quick=cxc.quick)


def minilm(config: ConfigDict) -> ConfigDict:
    """Trains three of six layers; the others are computed once for all captions."""
    config.total_steps, config.batch_size, config.log_every = 300, 256, 10
    cxc.use_minilm(config, lower_depth=3)
    config.model.similarity = {"name": "cosine", "temperature": 0.05}
    # 2.4 % of the captions are longer and are truncated.
    config.data.text.max_length = 20
    config.optimizer = base.adamw(2e-4, decay=0.01, warmup="up to 20", clip_norm=1.0)
    config.evals.coco.every, config.checkpoint.every = 100, 50
    config.best_checkpoint.metric = "coco/coco5k/t2t/recall@1"
    return config
