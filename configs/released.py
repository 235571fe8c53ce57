"""Evaluates a released model on COCO as `xmodal.convert_weights --model` converted it.

    python -m xmodal.convert_weights --model=pcme --source=pcme_coco.pth --output=weights/pcme
    python -m xmodal.eval_main --config=configs/released.py \\
        --config.init_from.model=weights/pcme --config.data.manual_dir=DIR --output=results/pcme

The model and the preprocessing of its inputs come from the folder. `--config.data.ratings_dir=DIR`
adds the ratings of Crisscrossed Captions, `--config.evals.coco.annotations=DIR` ECCV Caption and
PMRP.
"""

from ml_collections import ConfigDict

from configs import base


def get_config() -> ConfigDict:
    """A config without a model, tasks or training."""
    config = base.base("released")
    config.data = base.dataset("coco_captions")
    # Longer than every caption of COCO.
    config.data.text = base.words("nltk", min_count=1, max_length=64)
    config.evals = {"coco": base.boards()}
    config.evals.coco.batch_size = 128
    return config
