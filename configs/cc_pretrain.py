"""Pretraining of the CxC paper's image-text model on Conceptual Captions 3.3M.

    python -m xmodal convert --tower=efficientnet --variant=b4 --source=FILE \\
        --output=weights/efficientnet_b4
    python -m xmodal convert --tower=bert --source=FOLDER --output=weights/bert
    python -m xmodal.main --config=configs/cc_pretrain.py --config.data.manual_dir=DIR \\
        --config.init_from.towers.image=weights/efficientnet_b4 \\
        --config.init_from.towers.text=weights/bert --workdir=RUN

FILE is Keras' EfficientNet-B4 for ImageNet (efficientnetb4_notop.h5), and FOLDER is the uncased
BERT-Base from Google (uncased_L-12_H-768_A-12) or Hugging Face. Without them, both towers start at
random, even the frozen BERT, with a warning. The COCO configs continue from RUN and its vocabulary.

Variants, joined by commas: `small_batch` (128 pairs) and `resnet152` are the beginning of the
paper's ablations, `as_printed` follows the print where it differs from the released code
(configs/cxc.py has a table), `quick` runs on the built-in dataset. ResNet-152 is TF-Hub's:

    python -m xmodal convert --tower=resnet --variant=slim --source=FOLDER \\
        --output=weights/resnet152

with --config.init_from.towers.image=weights/resnet152, where FOLDER is that of the SavedModel
imagenet/resnet_v1_152/feature_vector/4.

Paper: Adam, learning rate 1e-4, 2,048 pairs on 32 TPU v3 cores, stopped near 30,000 steps (18.6
epochs of 3.3M pairs) at the best R@10 on a held-out set; here, the published validation split.
"""

from ml_collections import ConfigDict

from configs import base, cxc


def get_config(argument: str = "") -> ConfigDict:
    """Takes variants joined by commas."""
    config = cxc.experiment("cc_pretrain")
    config.total_steps = 30_000
    config.data.dataset = "conceptual_captions"
    config.data.length_bucketing = None  # The share of its captions that are short is not known.
    config.evals = {"cc3m": base.benchmarks(final_split="validation")}
    config.optimizer = cxc.skipping_adam(1e-4)
    config.best_checkpoint.metric = "cc3m/conceptual_captions/mean_recall@10"
    config.tasks = {"i2t": cxc.image_text()}
    return base.variant(config, argument, **cxc.VARIANTS)
