"""The tokens a model knows: read from its vocab.txt, or word pieces of the training captions."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from etils import epath
from tensorflow_text.tools.wordpiece_vocab import bert_vocab_from_dataset

from xmodal.config import UserError
from xmodal.data.config import DataConfig, TextConfig, parse
from xmodal.data.sources import Source, replacing
from xmodal.data.text import SPECIAL_TOKENS, normalize


def vocabulary_size(config: Mapping[str, Any] | DataConfig) -> int:
    """Number of entries of the vocabulary, which only the learnt one itself can tell."""
    return len(load_vocabulary(parse(config)))


def load_vocabulary(config: DataConfig) -> list[str]:
    """The vocabulary that `config.text` asks for.

    A learnt one comes from the captions of the split `train` and is cached beside the dataset.

    Raises:
      UserError: there is no such file, or no file is named and there are words to look up.
    """
    if config.text.vocabulary:
        return read_vocabulary(epath.Path(config.text.vocabulary))
    if config.text.tokenizer == "words":
        raise UserError(
            "config.data.text.tokenizer='words' needs config.data.text.vocabulary: the vocab.txt "
            "that data_prep.convert_weights wrote beside the word vectors."
        )
    source = Source(config, "train")
    case = "uncased" if config.text.lower_case else "cased"
    path = source.folder / f"vocabulary-{config.text.vocabulary_size}-{case}.txt"
    if not path.exists():
        captions = np.concatenate([block["captions"].flat_values for block in source.walk()])
        vocabulary = learn_vocabulary(captions, config.text)
        with replacing(path) as file:
            file.write("".join(f"{token}\n" for token in vocabulary).encode())
    return read_vocabulary(path)


def read_vocabulary(path: epath.Path) -> list[str]:
    """Reads a vocab.txt: one token per line, its id is the line number from 0.

    Raises:
      UserError: there is no such file.
    """
    if not path.exists():
        raise UserError(
            f"config.data.text.vocabulary names {path}, which does not exist. Give the vocab.txt "
            "of the checkpoint, or '' to learn a vocabulary from the training captions."
        )
    return [token.strip() for token in path.read_text(encoding="utf-8").rstrip("\n").split("\n")]


def learn_vocabulary(captions: np.ndarray, config: TextConfig) -> list[str]:
    """Learns a WordPiece vocabulary with tensorflow-text's own tool.

    Args:
      captions: UTF-8 strings [N].
      config: the size to aim at, and the case rule.

    Returns:
      The special tokens and then the pieces. The tool tries thresholds of the count and stops
      where none comes closer to `vocabulary_size`, be it below or a little above. The same
      captions always give the same list.
    """
    batches = tf.data.Dataset.from_tensor_slices(captions).batch(1024)
    return bert_vocab_from_dataset.bert_vocab_from_dataset(
        batches.map(lambda batch: normalize(batch, config.lower_case)),
        vocab_size=config.vocabulary_size,
        reserved_tokens=list(SPECIAL_TOKENS),
        bert_tokenizer_params={"lower_case": False},
        # The tool's own threshold, 10 occurrences, leaves small datasets far below the size.
        learn_params={"lower_thresh": 2},
    )
