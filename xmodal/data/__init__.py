"""Records by index to decoded, augmented and tokenised batches with ids."""

import tensorflow as tf

from xmodal.data.captions import SplitCaptions, split_captions
from xmodal.data.config import DataConfig, parse
from xmodal.data.evaluation import EvalSet, eval_set
from xmodal.data.pipeline import num_train_examples, train_batches
from xmodal.data.preparation import prepare
from xmodal.data.sources import UNKNOWN_HASH, DatasetMissingError, split_hashes
from xmodal.data.vocabulary import vocabulary_size

# The accelerators belong to JAX; TensorFlow would take all of a GPU's memory on first use.
tf.config.set_visible_devices([], "GPU")

__all__ = [
    "UNKNOWN_HASH",
    "DataConfig",
    "DatasetMissingError",
    "EvalSet",
    "SplitCaptions",
    "eval_set",
    "num_train_examples",
    "parse",
    "prepare",
    "split_captions",
    "split_hashes",
    "train_batches",
    "vocabulary_size",
]
