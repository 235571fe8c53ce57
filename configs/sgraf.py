"""SGRAF: vectors compare each word of a caption with the regions that it attends to.

    python -m xmodal.main --config=configs/sgraf.py:saf --config.data.manual_dir=FOLDER

| variant       | the comparisons of a pair are                     |
| ------------- | ------------------------------------------------- |
| saf (or none) | summed with gates, similarity attention filtration |

Diao et al., "Similarity Reasoning and Filtration for Image-Text Matching" (AAAI 2021), and
Paranioar/SGRAF, branch python3.6. 36 regions, a BiGRU, and a hinge loss on the hardest negatives of
128 pairs. Differences from that code: the gates are not normalized over the batch, see
`xmodal/similarity/saf.py`; training ranks by the logit, not the sigmoid, of a score; the best
checkpoint is selected by mean R@10 on all validation images, theirs by the sum of recalls on 1,000.
`itm.py` lists differences that all of these papers share.

README of the authors' code, COCO test, R@1/5/10:
    saf        1K   I->T 78.0 95.9 98.5   T->I 62.2 89.5 95.4
               5K   I->T 55.5 83.8 91.8   T->I 40.1 69.7 80.4
"""

from ml_collections import ConfigDict

from configs import base, itm


def get_config(argument: str = "") -> ConfigDict:
    """See the table; `quick` runs on the built-in dataset."""
    return base.variant(experiment(), argument or "saf", saf=lambda config: config, quick=quick)


def experiment() -> ConfigDict:
    """SAF on 36 regions."""
    config = itm.use_regions(itm.experiment("sgraf_saf"))
    config.total_steps = "20 epochs"
    config.model.image = {
        "encoder": itm.regions(),
        "head": {"name": "global_attention", "width": itm.DIMENSION, "batch_norm": True},
        "projection": None,
    }
    config.model.text = {
        "encoder": itm.gru(itm.DIMENSION, bidirectional=True, directions="mean", dropout=0.4),
        "head": {"name": "global_attention"},
        "projection": None,
    }
    config.model.similarity = {"name": "saf", "width": 256, "attention_scale": 9.0}
    config.tasks = {"i2t": itm.hinge()}
    # Tiles of the batch's pairs, recomputed in the backward pass.
    config.tasks.i2t.loss.options.update({"engine": "auto:512"})
    config.optimizer = itm.clipped_adam(2e-4, "10 epochs")
    return config


def quick(config: ConfigDict) -> ConfigDict:
    """Small, on the cells of a stored map."""
    config = itm.quick(config)
    config.model.text.encoder.update({"embedding_width": 32, "width": 32})
    config.model.image.head.width, config.model.similarity.width = 32, 16
    return config
