"""Texts to padded ids by the tokenizer that `config.data.text` names."""

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from xmodal.config import UserError, lookup, setting
from xmodal.preprocessing import treebank
from xmodal.preprocessing.vocabulary import END, PAD, START, UNKNOWN
from xmodal.preprocessing.wordpiece import WordPieces
from xmodal.preprocessing.words import find_row, split_words


@dataclasses.dataclass(frozen=True)
class TokenAugmentConfig:
    """Random changes of training captions, as PCME's `caption_drop_prob` makes them.

    Attributes:
      unknown: probability of each token to become the unknown token.
      delete: share of the tokens of a caption, rounded down, that is deleted afterwards.
    """

    unknown: float = setting(0.0, at_least=0, at_most=1)
    delete: float = setting(0.0, at_least=0, at_most=1)


@dataclasses.dataclass(frozen=True)
class TextConfig:
    """How texts become ids.

    Attributes:
      tokenizer: "wordpiece" for BERT; "ptb" and "nltk" for words by nltk's two Treebank
        tokenizers; "words" for tables of published word vectors.
      vocabulary: path of a vocab.txt, one token per line; "" learns it from the training captions.
      vocabulary_size: number of word pieces to learn; a few per cent more may come out.
      min_count: words that occur less often in the training captions are not learned.
      unknown: of words outside the vocabulary, "drop" leaves them out and "token" keeps `<unk>`.
        Word pieces always have `[UNK]`.
      markers: "sentence" puts `<start>` and `<end>` around words, "none" nothing. Word pieces are
        always between `[CLS]` and `[SEP]`.
      max_length: T, ids of a padded text, markers included.
      lower_case: "wordpiece": the model is uncased, lower-case and strip accents; "ptb" and "nltk":
        lower-case the text; "words": look up in lower case the words unknown as written.
      augment: changes of training captions, None for none.
    """

    tokenizer: str = setting("wordpiece", one_of=("wordpiece", "ptb", "nltk", "words"))
    vocabulary: str = ""
    vocabulary_size: int = setting(1024, at_least=1)
    min_count: int = setting(1, at_least=1)
    unknown: str = setting("drop", one_of=("drop", "token"))
    markers: str = setting("none", one_of=("none", "sentence"))
    max_length: int = setting(48, at_least=1)
    lower_case: bool = True
    augment: TokenAugmentConfig | None = None

    def __post_init__(self) -> None:
        marked = self.tokenizer == "wordpiece" or self.markers != "none"
        if marked and self.max_length < 3:
            raise UserError(
                f"config.data.text.max_length is {self.max_length}; markers and a token need 3"
            )
        if self.tokenizer == "wordpiece":
            for name, default in {"min_count": 1, "unknown": "drop", "markers": "none"}.items():
                if (value := getattr(self, name)) != default:
                    raise UserError(
                        f"config.data.text.{name} is {value!r}, which is a setting of word "
                        "tokenizers; word pieces have rules of their own, so leave it out"
                    )


class Tokenizer:
    """Turns texts into padded ids.

    Attributes:
      vocabulary: tokens in the order of their ids.
    """

    def __init__(
        self,
        vocabulary: Sequence[str],
        config: TextConfig,
        *,
        ids_of: Callable[[str], list[int]],
        markers: tuple[str, str] | None,
        pad: str,
        unknown: str,
    ) -> None:
        """Puts a tokenizer together; `make_tokenizer` knows the parts.

        Args:
          vocabulary: tokens in the order of their ids.
          config: length and augmentation.
          ids_of: function of a text that returns its ids, without markers.
          markers: tokens before and after a text, None for none.
          pad: token of padding; id 0 where the vocabulary has no such token.
          unknown: token of unknown words, which augmentation may put in.

        Raises:
          UserError: the vocabulary lacks a token that the config needs.
        """
        self.vocabulary = tuple(vocabulary)
        self._ids_of, self._length, self._augment = ids_of, config.max_length, config.augment
        ids = {token: number for number, token in reversed(list(enumerate(vocabulary)))}
        self._start, self._end = [[_require(ids, token)] for token in markers or ()] or [[], []]
        self._pad = ids.get(pad, 0)
        if config.augment is not None and config.augment.unknown:
            self._unknown = _require(ids, unknown)

    def encode(
        self, texts: Sequence[str], seeds: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Tokenizes texts.

        Args:
          texts: N texts.
          seeds: int64 [N, 2], of the augmentation that the config asks for; None for none.

        Returns:
          Ids int32 [N, T] and a mask int32 [N, T] that is 1 on real tokens.
        """
        rows: list[list[int]] = list(map(self._ids_of, texts))
        if seeds is not None and self._augment is not None:
            rows = [self._augmented(row, seed) for row, seed in zip(rows, seeds, strict=True)]
        most = self._length - len(self._start) - len(self._end)
        rows = [[*self._start, *row[:most], *self._end] for row in rows]
        lengths = np.fromiter(map(len, rows), np.int32, len(rows))
        mask = np.arange(self._length) < lengths[:, None]
        ids = np.full(mask.shape, self._pad, np.int32)
        ids[mask] = np.fromiter(itertools.chain.from_iterable(rows), np.int32, lengths.sum())
        return ids, mask.astype(np.int32)

    def _augmented(self, ids: list[int], seed: np.ndarray) -> list[int]:
        """Returns ids with some made unknown and some deleted; the seed decides."""
        # Raw bits: NumPy promises that their stream stays the same between versions.
        bits = np.random.Philox(key=seed.astype(np.uint64)).random_raw(2 * len(ids))
        replaced, order = bits.reshape(2, -1)
        uniform = (replaced >> np.uint64(11)) * 2.0**-53
        deleted = set(np.argsort(order)[: int(self._augment.delete * len(ids))].tolist())
        return [
            self._unknown if uniform[place] < self._augment.unknown else token
            for place, token in enumerate(ids)
            if place not in deleted
        ]


def _require(ids: Mapping[str, int], token: str) -> int:
    if token not in ids:
        raise UserError(
            f"config.data.text needs the token {token}, which the vocabulary ({len(ids)} entries) "
            "lacks; add it, or change markers, unknown or augment"
        )
    return ids[token]


def word_splitter(config: TextConfig) -> Callable[[str], list[str]]:
    """Returns the function that splits a text into the words a vocabulary is learned from."""
    split = lookup("config.data.text.tokenizer", config.tokenizer, _SPLITTERS)
    if not config.lower_case:
        return split
    if config.tokenizer == "words":
        return lambda text: [word.lower() for word in split(text)]
    return lambda text: split(text.lower())


def _make_wordpiece(vocabulary: Sequence[str], config: TextConfig) -> Tokenizer:
    return Tokenizer(
        vocabulary,
        config,
        ids_of=WordPieces(vocabulary, config.lower_case),
        markers=("[CLS]", "[SEP]"),
        pad="[PAD]",
        unknown="[UNK]",
    )


def _make_words(vocabulary: Sequence[str], config: TextConfig) -> Tokenizer:
    # Of a word listed twice the first row counts, as in the files of vectors.
    rows = {word: row for row, word in reversed(list(enumerate(vocabulary)))}
    if config.tokenizer == "words":
        split = split_words
        find = find_row if config.lower_case else dict.get
    else:
        split, find = word_splitter(config), dict.get
    unknown = _require(rows, UNKNOWN) if config.unknown == "token" else None

    def ids_of(text: str) -> list[int]:
        found = [find(rows, word) for word in split(text)]
        if unknown is None:
            return [row for row in found if row is not None]
        return [unknown if row is None else row for row in found]

    markers = (START, END) if config.markers == "sentence" else None
    return Tokenizer(vocabulary, config, ids_of=ids_of, markers=markers, pad=PAD, unknown=UNKNOWN)


_SPLITTERS: Mapping[str, Callable[[str], list[str]]] = {
    "ptb": treebank.split_ptb,
    "nltk": treebank.split_nltk,
    "words": split_words,
}
TOKENIZERS: Mapping[str, Callable[[Sequence[str], TextConfig], Tokenizer]] = {
    "wordpiece": _make_wordpiece,
    "ptb": _make_words,
    "nltk": _make_words,
    "words": _make_words,
}
"""By `config.data.text.tokenizer`."""


def make_tokenizer(config: TextConfig, vocabulary: Sequence[str]) -> Tokenizer:
    """Returns the tokenizer of a config.

    Args:
      config: see `TextConfig`.
      vocabulary: tokens in the order of their ids.

    Raises:
      UserError: the vocabulary lacks a token that the config needs.
    """
    return lookup("config.data.text.tokenizer", config.tokenizer, TOKENIZERS)(vocabulary, config)
