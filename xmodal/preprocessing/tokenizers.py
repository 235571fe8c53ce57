"""Turns texts into padded ids with the tokenizer named in `config.data.text`."""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from xmodal.base.config import UserError, lookup, setting
from xmodal.preprocessing import byte_pairs, treebank
from xmodal.preprocessing.tokenizer_files import TokenizerFile, vocabulary_file
from xmodal.preprocessing.vocabulary import END, MASK, PAD, START, UNKNOWN
from xmodal.preprocessing.wordpiece import WordPieces
from xmodal.preprocessing.words import find_row, split_at_spaces, split_words

_OWN_RULES = ("wordpiece", "bpe")
_REMEMBERED = 2**17  # Texts whose ids a word tokenizer caches; less than 100 MB.


@dataclasses.dataclass(frozen=True)
class TokenAugmentConfig:
    """Random changes of training captions: those of PCME and VETE, or those of VSE-infinity.

    Attributes:
      unknown: probability that a token becomes the unknown token (PCME).
      delete: share of the tokens of a caption, rounded down, that is deleted afterwards (PCME).
      keep: number of tokens kept of a caption afterwards, besides markers; 0 for all (VETE trains
        on single words with 1).
      change: probability that a word is masked, replaced or deleted (VSE-infinity).
      mask: share of the changed words whose pieces all become the mask token.
      replace: share of the changed words whose pieces all become random entries of the vocabulary.
        The other changed words are deleted.
      change_markers: whether markers are changed like words, as by the released code for words.
    """

    unknown: float = setting(0.0, at_least=0, at_most=1)
    delete: float = setting(0.0, at_least=0, at_most=1)
    keep: int = setting(0, at_least=0)
    change: float = setting(0.0, at_least=0, at_most=1)
    mask: float = setting(0.5, at_least=0, at_most=1)
    replace: float = setting(0.1, at_least=0, at_most=1)
    change_markers: bool = False

    def __post_init__(self) -> None:
        if self.change and (self.unknown or self.delete or self.keep):
            raise UserError(
                f"config.data.text.augment.change={self.change} is one way to change captions, "
                f"unknown={self.unknown}, delete={self.delete} and keep={self.keep} are another; "
                "set one to 0."
            )
        if self.mask + self.replace > 1:
            raise UserError(
                f"config.data.text.augment.mask={self.mask} and replace={self.replace} are shares "
                "of the changed words; their sum is at most 1."
            )


@dataclasses.dataclass(frozen=True)
class TextConfig:
    """How texts become ids.

    Attributes:
      tokenizer: "wordpiece" for BERT; "bpe" for CLIP's byte pairs; "ptb" and "nltk" for words by
        nltk's two Treebank tokenizers; "spaces" for words as CMCM's authors split them; "words" for
        tables of published word vectors.
      vocabulary: path of a vocab.txt, one token per line, or of a merges.txt for "bpe"; "" to learn
        a vocabulary from training captions, except for "bpe".
      vocabulary_size: number of word pieces to learn; the result may be a few percent larger.
      min_count: words that occur less often in the training captions are not learned.
      unknown: for words outside the vocabulary, "drop" omits them and "token" uses `<unk>`.
        Word pieces always have `[UNK]`.
      markers: "sentence" puts `<start>` and `<end>` around words, "none" nothing. Word pieces are
        always between `[CLS]` and `[SEP]`.
      max_length: T, number of ids of a padded text, including markers.
      lower_case: "wordpiece": the model is uncased, lower-case and strip accents; "bpe", "ptb",
        "nltk" and "spaces": lower-case the text; "words": look up in lower case the words unknown
        as written.
      augment: changes of training captions; None for none.
    """

    tokenizer: str = setting(
        "wordpiece", one_of=("wordpiece", "bpe", "ptb", "nltk", "spaces", "words")
    )
    vocabulary: str = ""
    vocabulary_size: int = setting(1024, at_least=1)
    min_count: int = setting(1, at_least=1)
    unknown: str = setting("drop", one_of=("drop", "token"))
    markers: str = setting("none", one_of=("none", "sentence"))
    max_length: int = setting(48, at_least=1)
    lower_case: bool = True
    augment: TokenAugmentConfig | None = None

    def __post_init__(self) -> None:
        marked = self.tokenizer in _OWN_RULES or self.markers != "none"
        if marked and self.max_length < 3:
            raise UserError(
                f"config.data.text.max_length is {self.max_length}; markers and a token need 3"
            )
        if self.tokenizer in _OWN_RULES:
            for name, default in {"min_count": 1, "unknown": "drop", "markers": "none"}.items():
                if (value := getattr(self, name)) != default:
                    raise UserError(
                        f"config.data.text.{name} is {value!r}, which is a setting of word "
                        "tokenizers; word pieces and byte pairs have their own rules, so remove it"
                    )


class Tokenizer:
    """Turns texts into padded ids.

    Attributes:
      vocabulary: tokens in the order of their ids.
      identity: see `TokenizerFile.identity`.
      max_length: T, number of ids of a padded text.
    """

    def __init__(
        self,
        vocabulary: Sequence[str],
        config: TextConfig,
        *,
        ids_of: Callable[[str], Sequence[int]],
        groups_of: Callable[[str], Iterable[Sequence[int]]],
        markers: tuple[str, str] | None,
        pad: str,
        unknown: str,
        mask: str,
    ) -> None:
        """Assembles a tokenizer from its parts; use `make_tokenizer` instead.

        Args:
          vocabulary: tokens in the order of their ids.
          config: length and augmentation.
          ids_of: function of a text that returns its ids, without markers.
          groups_of: the same, with separate ids for each word.
          markers: tokens before and after a text; None for none.
          pad: padding token; id 0 if the vocabulary has no such token.
          unknown: token of unknown words, which augmentation may insert.
          mask: token of masked words, which augmentation may insert.

        Raises:
          UserError: the vocabulary lacks a token that the config needs.
        """
        self.vocabulary = tuple(vocabulary)
        self.identity = vocabulary_file(vocabulary).identity
        self._ids_of, self._groups_of = ids_of, groups_of
        self.max_length, self._augment = config.max_length, config.augment
        ids = {token: number for number, token in reversed(list(enumerate(vocabulary)))}
        self._start, self._end = [[_require(ids, token)] for token in markers or ()] or [[], []]
        self._pad = ids.get(pad, 0)
        if config.augment is not None and config.augment.unknown:
            self._unknown = _require(ids, unknown)
        if needs_mask(config):
            self._mask = _require(ids, mask)

    def encode(
        self, texts: Sequence[str], seeds: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Tokenizes texts.

        Args:
          texts: N strings.
          seeds: seeds int64 [N, 2] of the config's augmentation; None for none.

        Returns:
          Ids int32 [N, T] and a mask int32 [N, T] that is 1 on real tokens.
        """
        augment = self._augment
        if seeds is None or augment is None:
            rows = [self._marked(self._ids_of(text)) for text in texts]
        elif augment.change:
            rows = [
                self._changed(text, seed, augment) for text, seed in zip(texts, seeds, strict=True)
            ]
        else:
            rows = [
                self._marked(self._augmented(self._ids_of(text), seed, augment))
                for text, seed in zip(texts, seeds, strict=True)
            ]
        lengths = np.fromiter(map(len, rows), np.int32, len(rows))
        mask = np.arange(self.max_length) < lengths[:, None]
        ids = np.full(mask.shape, self._pad, np.int32)
        ids[mask] = np.fromiter(itertools.chain.from_iterable(rows), np.int32, lengths.sum())
        return ids, mask.astype(np.int32)

    def _marked(self, ids: Sequence[int]) -> list[int]:
        most = self.max_length - len(self._start) - len(self._end)
        return [*self._start, *ids[:most], *self._end]

    def _changed(self, text: str, seed: np.ndarray, config: TokenAugmentConfig) -> list[int]:
        """Returns a text's ids with words masked, replaced or deleted according to the seed."""
        groups = list(self._groups_of(text))
        if config.change_markers:
            groups = [[token] for token in self._marked(list(itertools.chain(*groups)))]
        bits = _random_bits(seed, len(groups) + sum(map(len, groups)))
        draws = _to_uniform(bits[: len(groups)]) / config.change
        others = iter((bits[len(groups) :] % np.uint64(len(self.vocabulary))).tolist())
        ids: list[int] = []
        for draw, group in zip(draws, groups, strict=True):
            replacements = list(itertools.islice(others, len(group)))
            if draw >= 1:
                ids += group
            elif draw < config.mask:
                ids += [self._mask] * len(group)
            elif draw < config.mask + config.replace:
                ids += replacements
        return ids if config.change_markers else self._marked(ids)

    def _augmented(
        self, ids: Sequence[int], seed: np.ndarray, config: TokenAugmentConfig
    ) -> list[int]:
        """Returns ids with some made unknown and some deleted according to the seed."""
        replaced, order = _random_bits(seed, 2 * len(ids)).reshape(2, -1)
        uniform = _to_uniform(replaced)
        deleted = int(config.delete * len(ids))
        kept = np.argsort(order)[deleted:][: config.keep or None]
        return [
            self._unknown if uniform[place] < config.unknown else ids[place]
            for place in sorted(kept.tolist())
        ]


def _random_bits(seed: np.ndarray, count: int) -> np.ndarray:
    # Raw bits: NumPy guarantees that their stream stays the same between versions.
    return np.random.Philox(key=seed.astype(np.uint64)).random_raw(count)


def _to_uniform(bits: np.ndarray) -> np.ndarray:
    return (bits >> np.uint64(11)) * 2.0**-53


def needs_mask(config: TextConfig) -> bool:
    """Returns whether the augmentation of a config inserts the mask token."""
    return config.augment is not None and config.augment.change > 0


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
    pieces = WordPieces(vocabulary, config.lower_case)
    return Tokenizer(
        vocabulary,
        config,
        ids_of=pieces,
        groups_of=pieces.by_word,
        markers=("[CLS]", "[SEP]"),
        pad="[PAD]",
        unknown="[UNK]",
        mask="[MASK]",
    )


def _make_byte_pairs(vocabulary: TokenizerFile, config: TextConfig) -> Tokenizer:
    pieces = byte_pairs.BytePairs(vocabulary.content.decode("utf-8-sig"), config.lower_case)
    return Tokenizer(
        vocabulary,
        config,
        ids_of=pieces,
        groups_of=pieces.by_word,
        markers=(byte_pairs.START, byte_pairs.END),
        # None of these is a token: padding is id 0, and nothing is unknown or masked.
        pad=PAD,
        unknown=UNKNOWN,
        mask=MASK,
    )


def _make_words(vocabulary: Sequence[str], config: TextConfig) -> Tokenizer:
    # If a word is listed twice, the first row counts, as in the vector files.
    rows = {word: row for row, word in reversed(list(enumerate(vocabulary)))}
    if config.tokenizer == "words":
        split = split_words
        find = find_row if config.lower_case else dict.get
    else:
        split, find = word_splitter(config), dict.get
    unknown = _require(rows, UNKNOWN) if config.unknown == "token" else None

    # Every epoch has each caption, and splitting it takes longer than the rest of a batch.
    @functools.lru_cache(_REMEMBERED)
    def ids_of(text: str) -> tuple[int, ...]:
        found = [find(rows, word) for word in split(text)]
        if unknown is None:
            return tuple(row for row in found if row is not None)
        return tuple(unknown if row is None else row for row in found)

    return Tokenizer(
        vocabulary,
        config,
        ids_of=ids_of,
        groups_of=lambda text: [[token] for token in ids_of(text)],
        markers=(START, END) if config.markers == "sentence" else None,
        pad=PAD,
        unknown=UNKNOWN,
        mask=MASK,
    )


_SPLITTERS: Mapping[str, Callable[[str], list[str]]] = {
    "ptb": treebank.split_ptb,
    "nltk": treebank.split_nltk,
    "spaces": split_at_spaces,
    "words": split_words,
}
TOKENIZERS: Mapping[str, Callable[[TokenizerFile, TextConfig], Tokenizer]] = {
    "wordpiece": _make_wordpiece,
    "bpe": _make_byte_pairs,
    "ptb": _make_words,
    "nltk": _make_words,
    "spaces": _make_words,
    "words": _make_words,
}
"""By `config.data.text.tokenizer`."""


def file_name(tokenizer: str) -> str:
    """Returns the name of the file that a tokenizer reads, a key of `tokenizer_files.FILES`."""
    return "merges.txt" if tokenizer == "bpe" else "vocab.txt"


def make_tokenizer(config: TextConfig, vocabulary: Sequence[str]) -> Tokenizer:
    """Returns the tokenizer of a config.

    Args:
      config: see `TextConfig`.
      vocabulary: tokens in the order of their ids, with the file that they come from if it is
        not a vocab.txt.

    Raises:
      UserError: the vocabulary lacks a token that the config needs, or is of another kind.
    """
    make = lookup("config.data.text.tokenizer", config.tokenizer, TOKENIZERS)
    given, wanted = vocabulary_file(vocabulary), file_name(config.tokenizer)
    if given.name != wanted:
        raise UserError(
            f"config.data.text.tokenizer={config.tokenizer!r} reads a file called {wanted}, but "
            f"config.data.text.vocabulary names a {given.name}."
        )
    return make(given, config)
