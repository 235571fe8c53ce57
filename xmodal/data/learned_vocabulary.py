"""The vocabulary and the concepts of a config, read from a file or learned from captions."""

import functools
import hashlib
import importlib.metadata
import runpy
from collections.abc import Mapping, Sequence
from typing import Any

from absl import logging
from etils import epath

from data_prep.concept_counts import count_concepts
from xmodal.core.errors import UserError
from xmodal.core.files import write_file
from xmodal.data.data_config import DataConfig, parse
from xmodal.data.datasets import Source, read_captions
from xmodal.data.text import tokenizers
from xmodal.data.text.concept_graph import Concepts, parse_concepts, read_concepts
from xmodal.data.text.pieces import SPECIAL_TOKENS, count_words
from xmodal.data.text.text_config import TextConfig
from xmodal.data.text.text_counts import count_texts
from xmodal.data.text.tokenizer_files import TokenizerFile, read_vocabulary, vocabulary_file
from xmodal.data.text.tokenizers import Tokenizer
from xmodal.data.text.words import MASK, cut_text, learn_words

_TRAIN = "train"
_LOOKED_AT = 10_000  # Captions that are counted, so that a start takes no longer for more.
_REMEDY = (
    "Take config.data.text.vocabulary of their language, or '' to learn one, with min_count=1 or a "
    "larger vocabulary_size, and tokenizer='wordpiece' for a language without spaces."
)
_LEARNER = "tensorflow_text/tools/wordpiece_vocab/wordpiece_tokenizer_learner_lib.py"


def vocabulary_size(config: Mapping[str, Any] | DataConfig, train_split: str = _TRAIN) -> int:
    """Returns the number of entries of a vocabulary, see `load_vocabulary`.

    Logs how many training captions are cut or without a known word, a warning for many.
    """
    config = parse(config)
    captions, what = read_captions(config, train_split), "training captions"
    if (step := max(1, len(captions) // _LOOKED_AT)) > 1:
        what = f"training captions, a sample of {len(captions):,},"
    tokenizer = load_tokenizer(config, train_split)
    counts = count_texts(tokenizer, captions[::step])
    if said := counts.describe(what, "config.data.text.max_length"):
        if counts.unknown == counts.texts:
            raise UserError(f"{said} {_REMEDY}")
        is_many = 10 * max(counts.unknown, counts.cut) > counts.texts
        logging.log(logging.WARNING if is_many else logging.INFO, "%s", said)
    return len(tokenizer.vocabulary)


def load_tokenizer(config: Mapping[str, Any] | DataConfig, train_split: str = _TRAIN) -> Tokenizer:
    """Returns the tokenizer of `config.text` with its vocabulary, see `load_vocabulary`."""
    config = parse(config)
    return tokenizers.make_tokenizer(config.require_text(), load_vocabulary(config, train_split))


def load_vocabulary(
    config: Mapping[str, Any] | DataConfig, train_split: str = _TRAIN
) -> TokenizerFile:
    """Returns the vocabulary of `config.text`.

    A learned vocabulary comes from the training captions and is cached beside the dataset.

    Args:
      config: see `DataConfig`.
      train_split: split that the model trains on; other captions may be those of its test.
    """
    config = parse(config)
    text = config.require_text()
    if text.vocabulary:
        return read_vocabulary(text.vocabulary)
    if (name := tokenizers.file_name(text.tokenizer)) != "vocab.txt":
        raise UserError(
            f"config.data.text.tokenizer={text.tokenizer!r} is not learned here: set "
            f"config.data.text.vocabulary to its {name}."
        )
    source = Source(config, train_split, ["captions"])
    path = source.folder / _file_name(text, train_split)
    if path.exists():
        return read_vocabulary(path)
    return _learn_and_keep(config, train_split, path)


def learn_vocabulary(texts: Sequence[str], config: TextConfig) -> list[str]:
    """Returns the vocabulary that a tokenizer learns from texts; it depends only on the texts.

    Args:
      texts: training captions.
      config: names the tokenizer, how it reads texts, and the size or the smallest count.

    Returns:
      The vocabulary, special tokens first. Word pieces are learned with tensorflow-text's own tool,
      which tries thresholds of the count and stops when none comes closer to `vocabulary_size`,
      from below or slightly above.
    """
    cut = functools.partial(cut_text, separators=config.separators, max_words=config.max_words)
    texts = list(map(cut, texts))  # As the tokenizer reads them.
    if config.tokenizer != "wordpiece":
        found = learn_words(texts, tokenizers.word_splitter(config), config.min_count)
        if tokenizers.needs_mask(config):
            found = [*(word for word in found if word != MASK), MASK]
        return found
    # Run as a file: its package imports tensorflow, which takes seconds.
    package = importlib.metadata.distribution("tensorflow-text")
    learn = runpy.run_path(str(package.locate_file(_LEARNER)))["learn"]
    # With the tool's own threshold, 10 occurrences, small datasets stay far below the size.
    options = {"reserved_tokens": list(SPECIAL_TOKENS), "lower_thresh": 2}
    return learn(count_words(texts, config.lower_case), config.vocabulary_size, **options)


# A process learns it only once even if the file cannot be written: a start needs it repeatedly.
@functools.cache
def _learn_and_keep(config: DataConfig, train_split: str, path: epath.Path) -> TokenizerFile:
    captions = read_captions(config, train_split)
    logging.info("Learning the vocabulary from %s captions.", f"{len(captions):,}")
    vocabulary = vocabulary_file(learn_vocabulary(captions, config.require_text()))
    try:
        write_file(path, vocabulary.content)
    except OSError as error:
        logging.warning("%s is not stored for later runs: %s", path, error)
    return vocabulary


def _file_name(config: TextConfig, train_split: str) -> str:
    """Returns a name that differs for whatever the vocabulary depends on."""
    read = [config.lower_case, config.reading, config.separators, config.max_words]
    is_pieces = config.tokenizer == "wordpiece"
    by_count = [config.min_count, tokenizers.needs_mask(config)]
    learned = [config.vocabulary_size] if is_pieces else by_count
    key = hashlib.sha256(repr([*read, *learned, train_split]).encode()).hexdigest()[:16]
    return f"vocabulary-{config.tokenizer}-{key}.txt"


def load_concepts(file: str, config: DataConfig, count: int, train_split: str = _TRAIN) -> Concepts:
    """Returns the concepts of a file, or those that most training captions name.

    Args:
      file: written by `python -m data_prep.concepts`; "" to learn them. Learned concepts are words
        as they are written, so that the singular and the plural are two.
      config: see `DataConfig`.
      count: K, number of concepts to learn.
      train_split: split whose captions they are learned from.
    """
    if file:
        return read_concepts(file)
    concepts = parse_concepts(count_concepts(read_captions(config, train_split), count=count))
    logging.info(
        "Concepts are the %d most frequent words of the captions, such as %s; "
        "`python -m data_prep.concepts` writes a file of lemmas for config.init_from.concepts.",
        len(concepts.words),
        ", ".join(concepts.words[:5]),
    )
    return concepts
