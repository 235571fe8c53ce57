"""SGRAF: vectors compare each word of a caption with the regions that it attends to.

    python -m xmodal.main --config=configs/sgraf.py:sgr --config.data.manual_dir=FOLDER
    python -m xmodal.eval_main --run=RUN_OF_SGR,RUN_OF_SAF

| variant       | the comparisons of a pair                                         |
| ------------- | ----------------------------------------------------------------- |
| saf (or none) | are summed with gates, similarity attention filtration            |
| sgr           | pass messages in three steps, similarity graph reasoning          |
| saf_flickr30k, sgr_flickr30k | the settings for that dataset                      |

Diao et al., "Similarity Reasoning and Filtration for Image-Text Matching" (AAAI 2021), and
Paranioar/SGRAF, branch python3.6. 36 regions, a BiGRU, and a hinge loss on the hardest negatives of
128 pairs. The paper's SGRAF is the mean of the scores of both models, each trained alone.
Differences from that code: evaluation ranks by the logit, not the sigmoid, of a score; the best
checkpoint is selected by mean R@10 on all validation images, theirs by the sum of recalls on 1,000.
As in that code, SAF's gates are normalized over the batch, for each caption, which costs one more
pass over all pairs; `--config.model.similarity.gate_norm=none` does without, see
`xmodal/similarity/sgraf.py`. `itm.py` lists differences that all of these papers share.

README of the authors' code, COCO test, R@1/5/10:
    saf        1K   I->T 78.0 95.9 98.5   T->I 62.2 89.5 95.4
               5K   I->T 55.5 83.8 91.8   T->I 40.1 69.7 80.4
    sgr        1K   I->T 77.3 96.0 98.6   T->I 62.1 89.6 95.3
               5K   I->T 57.3 83.2 90.6   T->I 40.5 69.6 80.3
    both       1K   I->T 79.2 96.5 98.6   T->I 63.5 90.2 95.8
               5K   I->T 58.8 84.8 92.1   T->I 41.6 70.9 81.5
Flickr30k test:
    saf        I->T 75.6 92.7 96.9   T->I 56.5 82.0 88.4
    sgr        I->T 76.6 93.7 96.6   T->I 56.1 80.9 87.0
    both       I->T 78.4 94.6 97.5   T->I 58.2 83.0 89.1
"""

from functools import partial

from ml_collections import ConfigDict

from configs import base, itm

SIMILARITIES = {
    "saf": {"name": "saf", "width": 256, "attention_scale": 9.0, "gate_norm": "batch"},
    "sgr": {"name": "sgr", "width": 256, "attention_scale": 9.0, "steps": 3},
}
# Epochs, and those after which the rate falls.
FLICKR30K = {"saf": ("30 epochs", "20 epochs"), "sgr": ("40 epochs", "30 epochs")}


def get_config(argument: str = "") -> ConfigDict:
    """See the table; `quick` (SAF) and `sgr_quick` run on the built-in dataset."""
    variants = {name: partial(combine, name) for name in SIMILARITIES}
    variants |= {f"{name}_flickr30k": partial(flickr30k, name) for name in SIMILARITIES}
    variants |= {"saf_quick": partial(quick, "saf"), "sgr_quick": partial(quick, "sgr")}
    argument = {"": "saf", "quick": "saf_quick"}.get(argument, argument)
    return base.variant(experiment(), argument, **variants)


def experiment() -> ConfigDict:
    """SAF on 36 regions of COCO."""
    config = itm.use_regions(itm.experiment("sgraf"))
    config.total_steps = "20 epochs"
    head = {"name": "global_attention", "width": itm.DIMENSION, "batch_norm": True}
    config.model.image = base.tower(itm.regions(), head)
    config.model.text = base.tower(itm.averaged_gru(dropout=0.4), "global_attention")
    # Tiles of the batch's pairs, recomputed in the backward pass.
    config.tasks = {"i2t": itm.hinge(engine="auto:512")}
    config.optimizer = itm.clipped_adam(2e-4, "10 epochs")
    return combine("saf", config)


def combine(name: str, config: ConfigDict) -> ConfigDict:
    """One of `SIMILARITIES`."""
    config.model.similarity = dict(SIMILARITIES[name])
    return config


def flickr30k(name: str, config: ConfigDict) -> ConfigDict:
    """Other epochs."""
    config.total_steps, decay = FLICKR30K[name]
    return itm.use_flickr30k(combine(name, config), decay)


def quick(name: str, config: ConfigDict) -> ConfigDict:
    """Small, on the cells of a stored map."""
    config = itm.quick(combine(name, config), words=32, width=32, head=32)
    config.model.similarity.width = 16
    return config
