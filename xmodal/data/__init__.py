"""Turns numbered records into decoded, augmented and tokenized batches with ids."""

from xmodal.data.batch_spec import BatchSpec, batch_spec, cut_texts
from xmodal.data.data_config import DataConfig, parse, with_changes
from xmodal.data.datasets import (
    UNKNOWN_HASH,
    DatasetMissingError,
    follows_files,
    is_prepared,
    read_captions,
    split_hashes,
    title_of,
)
from xmodal.data.eval_split import EvalSplit, eval_split, text_batches
from xmodal.data.feature_records import FeatureReader, open_features, write_features
from xmodal.data.learned_concepts import load_concepts
from xmodal.data.learned_vocabulary import load_tokenizer, load_vocabulary, vocabulary_size
from xmodal.data.pipeline import num_train_examples, train_batches
from xmodal.data.preparation import check_outside, prepare
from xmodal.data.seen_sentences import count_seen

__all__ = [
    "UNKNOWN_HASH",
    "BatchSpec",
    "DataConfig",
    "DatasetMissingError",
    "EvalSplit",
    "FeatureReader",
    "batch_spec",
    "check_outside",
    "count_seen",
    "cut_texts",
    "eval_split",
    "follows_files",
    "is_prepared",
    "load_concepts",
    "load_tokenizer",
    "load_vocabulary",
    "num_train_examples",
    "open_features",
    "parse",
    "prepare",
    "read_captions",
    "split_hashes",
    "text_batches",
    "title_of",
    "train_batches",
    "vocabulary_size",
    "with_changes",
    "write_features",
]
