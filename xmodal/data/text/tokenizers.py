"""Turns texts into padded ids with the tokenizer named in `config.data.text`."""

import functools
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from xmodal.core.config import lookup
from xmodal.core.errors import UserError
from xmodal.data.text import byte_pairs, treebank
from xmodal.data.text.sentence_pieces import SentencePieces
from xmodal.data.text.text_cleaning import text_cleaner
from xmodal.data.text.text_config import ID_FIELDS, TextConfig, TokenAugmentConfig
from xmodal.data.text.tokenizer_files import TokenizerFile, vocabulary_file
from xmodal.data.text.tokenizer_json import JsonPieces
from xmodal.data.text.vocabulary import END, MASK, PAD, START, UNKNOWN
from xmodal.data.text.wordpiece import WordPieces
from xmodal.data.text.words import cut_text, find_row, split_at_spaces, split_words

_REMEMBERED = 2**17  # Texts whose ids a word tokenizer caches; less than 100 MB.


class Tokenizer:
    """Turns texts into padded ids.

    Attributes:
      vocabulary: tokens in the order of their ids.
      identity: see `TokenizerFile.identity`.
      rules: the fields of `TextConfig` on which the ids depend, by name.
      max_length: T, number of ids of a padded text.
      room: most ids of a text besides special tokens.
      unknown: id of unknown words; -1 without such a token.
    """

    def __init__(
        self,
        vocabulary: Sequence[str],
        config: TextConfig,
        *,
        ids_of: Callable[[str], Sequence[int]],
        groups_of: Callable[[str], Iterable[Sequence[int]]],
        start: Sequence[str] = (),
        end: Sequence[str] = (),
        pad: str,
        unknown: str,
        mask: str,
    ) -> None:
        """Assembles a tokenizer from its parts; use `make_tokenizer` instead.

        Args:
          vocabulary: tokens in the order of their ids.
          config: length, padding and augmentation.
          ids_of: function of a text that returns its ids, without special tokens.
          groups_of: the same, with separate ids for each word.
          start: tokens before a text.
          end: tokens after a text.
          pad: padding token unless the config names one; id 0 if the vocabulary has no such token.
          unknown: token of unknown words, which augmentation may insert.
          mask: token of masked words, which augmentation may insert.

        Raises:
          UserError: the vocabulary lacks a token that the config needs.
        """
        self.vocabulary = tuple(vocabulary)
        self.identity = vocabulary_file(vocabulary).identity
        self.rules = {name: getattr(config, name) for name in (*ID_FIELDS, "max_length")}
        self._ids_of, self._groups_of = ids_of, groups_of
        self.max_length, self._augment = config.max_length, config.augment
        self._cut = functools.partial(
            cut_text, separators=config.separators, max_words=config.max_words
        )
        ids = {token: number for number, token in reversed(list(enumerate(vocabulary)))}
        self._start, self._end = ([_require(ids, token) for token in each] for each in (start, end))
        self.room = config.max_length - len(self._start) - len(self._end)
        self._attend_to_padding = config.attend_to_padding
        needs_pad = bool(config.pad) or config.attend_to_padding
        self._pad = _require(ids, config.pad or pad) if needs_pad else ids.get(pad, 0)
        needs_unknown = config.augment is not None and config.augment.unknown
        self.unknown = _require(ids, unknown) if needs_unknown else ids.get(unknown, -1)
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
          Ids int32 [N, T] and a mask int32 [N, T] that is 1 on the tokens that the model reads.
        """
        augment = self._augment
        if seeds is None or augment is None:
            rows = [self._marked(ids) for ids in self.read(texts)]
        elif augment.change:
            rows = [
                self._changed(self._cut(text), seed, augment)
                for text, seed in zip(texts, seeds, strict=True)
            ]
        else:
            rows = [
                self._marked(self._augmented(ids, seed, augment))
                for ids, seed in zip(self.read(texts), seeds, strict=True)
            ]
        lengths = np.fromiter(map(len, rows), np.int32, len(rows))
        mask = np.arange(self.max_length) < lengths[:, None]
        ids = np.full(mask.shape, self._pad, np.int32)
        ids[mask] = np.fromiter(itertools.chain.from_iterable(rows), np.int32, lengths.sum())
        return ids, np.ones_like(ids) if self._attend_to_padding else mask.astype(np.int32)

    def read(self, texts: Sequence[str]) -> list[Sequence[int]]:
        """Returns all ids of texts, without special tokens and augmentation."""
        return [self._ids_of(self._cut(text)) for text in texts]

    def _marked(self, ids: Sequence[int]) -> list[int]:
        return [*self._start, *ids[: self.room], *self._end]

    def _changed(self, text: str, seed: np.ndarray, config: TokenAugmentConfig) -> list[int]:
        """Returns a text's ids with words masked, replaced or deleted according to the seed."""
        groups = list(self._groups_of(text))
        if config.change_special_tokens:
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
        return ids if config.change_special_tokens else self._marked(ids)

    def _augmented(
        self, ids: Sequence[int], seed: np.ndarray, config: TokenAugmentConfig
    ) -> list[int]:
        """Returns ids with some made unknown and some deleted according to the seed."""
        replaced, order = _random_bits(seed, 2 * len(ids)).reshape(2, -1)
        uniform = _to_uniform(replaced)
        deleted = int(config.delete * len(ids))
        kept = np.argsort(order)[deleted:][: config.keep or None]
        return [
            self.unknown if uniform[place] < config.unknown else ids[place]
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
            "lacks; add it, or change start, end, pad, special_tokens, unknown or augment"
        )
    return ids[token]


def word_splitter(config: TextConfig) -> Callable[[str], list[str]]:
    """Returns the function that splits a text into the words a vocabulary is learned from."""
    split = lookup("config.data.text.tokenizer", config.tokenizer, _SPLITTERS)
    if config.reading == "bytes":
        lower = str.lower if config.lower_case else str
        return lambda text: split(lower(str(text.strip().encode())))
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
        start=["[CLS]"],
        end=["[SEP]"],
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
        start=[byte_pairs.START],
        end=[byte_pairs.END],
        # None of these is a token: padding is id 0, and nothing is unknown or masked.
        pad=PAD,
        unknown=UNKNOWN,
        mask=MASK,
    )


def _make_sentence_pieces(vocabulary: TokenizerFile, config: TextConfig) -> Tokenizer:
    pieces = SentencePieces(vocabulary.content, text_cleaner(config))
    return Tokenizer(
        vocabulary,
        config,
        ids_of=pieces,
        groups_of=pieces.by_word,
        start=[config.start] if config.start else [],
        end=[config.end] if config.end else [],
        pad=pieces.pad or PAD,
        unknown=pieces.unknown,
        mask=MASK,
    )


def _make_json_pieces(vocabulary: TokenizerFile, config: TextConfig) -> Tokenizer:
    pieces = JsonPieces(vocabulary.content, text_cleaner(config))
    return Tokenizer(
        vocabulary,
        config,
        ids_of=pieces,
        groups_of=pieces.by_word,
        start=pieces.start,
        end=pieces.end,
        pad=pieces.pad or _first_known(vocabulary, "[PAD]", PAD),
        unknown=pieces.unknown,
        mask=_first_known(vocabulary, "[MASK]", MASK),
    )


def _first_known(vocabulary: Sequence[str], usual: str, other: str) -> str:
    return usual if usual in vocabulary else other


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
        start=[START] if config.special_tokens == "sentence" else [],
        end=[END] if config.special_tokens == "sentence" else [],
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
    "sentencepiece": _make_sentence_pieces,
    "tokenizer_json": _make_json_pieces,
    "ptb": _make_words,
    "nltk": _make_words,
    "spaces": _make_words,
    "words": _make_words,
}
"""By `config.data.text.tokenizer`."""
_FILES = {
    "bpe": "merges.txt",
    "sentencepiece": "sentencepiece.model",
    "tokenizer_json": "tokenizer.json",
}


def file_name(tokenizer: str) -> str:
    """Returns the name of the file that a tokenizer reads, a key of `tokenizer_files.FILES`."""
    return _FILES.get(tokenizer, "vocab.txt")


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
    return _make_once(make, given, config)


# Counting, training and evaluation share one tokenizer and its cache of texts and words.
@functools.lru_cache(2)
def _make_once(
    make: Callable[..., Tokenizer], file: TokenizerFile, config: TextConfig
) -> Tokenizer:
    return make(file, config)
