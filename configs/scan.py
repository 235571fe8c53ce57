"""SCAN: words attend to regions, or regions to words.

    python -m xmodal.main --config=configs/scan.py:t2i_mean --config.data.manual_dir=FOLDER

| variant           | the tokens that attend | pooled by               |
| ----------------- | ---------------------- | ----------------------- |
| t2i_lse (or none) | words                  | log of a sum, lambda 6  |
| t2i_mean          | words                  | mean                    |
| i2t_lse           | regions                | log of a sum, lambda 20 |
| i2t_mean          | regions                | mean                    |

Lee et al., "Stacked Cross Attention for Image-Text Matching" (ECCV 2018), and kuanghuei/SCAN, whose
commands these are. 36 regions, a BiGRU, and a hinge loss on the hardest negatives of 128 pairs.
`VARIANT_flickr30k` has the settings for that dataset (lambda 5 for i2t_lse). Differences from that
code: the best checkpoint is selected by mean R@10 on all validation images, theirs by the sum of
recalls on 1,000. `itm.py` lists differences that all of these papers share.
"""

from functools import partial

from ml_collections import ConfigDict

from configs import base, itm

SIMILARITIES = {
    "t2i_lse": {"queries": "text", "pool": "lse", "pool_scale": 6.0, "attention_scale": 9.0},
    "t2i_mean": {"queries": "text", "pool": "mean", "attention_scale": 9.0},
    "i2t_lse": {"queries": "image", "pool": "lse", "pool_scale": 20.0, "attention_scale": 4.0},
    "i2t_mean": {"queries": "image", "pool": "mean", "attention_scale": 4.0},
}


def get_config(argument: str = "") -> ConfigDict:
    """See the table; `quick` runs on the built-in dataset."""
    variants = {name: partial(attend, name) for name in SIMILARITIES}
    variants |= {f"{name}_flickr30k": partial(flickr30k, name) for name in SIMILARITIES}
    variants["quick"] = partial(itm.quick, words=32, width=32, head=32)
    return base.variant(experiment(), argument or "t2i_lse", **variants)


def experiment() -> ConfigDict:
    """SCAN t-i LSE on COCO."""
    config = itm.use_regions(itm.experiment("scan"))
    config.total_steps = "20 epochs"
    head = {"name": "unit_tokens", "width": itm.DIMENSION}
    config.model.image = base.tower(itm.regions(), head)
    config.model.text = base.tower(itm.averaged_gru(), "unit_tokens")
    # Tiles of the batch's pairs, recomputed in the backward pass.
    config.tasks = {"i2t": itm.hinge(engine="auto:64")}
    config.optimizer = itm.clipped_adam(5e-4, "10 epochs")
    return attend("t2i_lse", config)


def attend(name: str, config: ConfigDict) -> ConfigDict:
    """One of `SIMILARITIES`."""
    config.model.similarity = {"name": "scan", **SIMILARITIES[name]}
    return config


def flickr30k(name: str, config: ConfigDict) -> ConfigDict:
    """A lower rate and more epochs."""
    config = itm.use_flickr30k(attend(name, config), "15 epochs")
    if name == "i2t_lse":
        config.model.similarity.pool_scale = 5.0
    config.total_steps, config.optimizer.learning_rate = "30 epochs", 2e-4
    return config
