"""Turns texts into padded ids with the tokenizer named in `config.data.text`."""

import functools
import itertools
import re
import string
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tokenizers
from tokenizers import Regex, normalizers, processors

from xmodal.core.errors import UserError
from xmodal.data.text import pieces as pieces_lib
from xmodal.data.text import words
from xmodal.data.text.pieces import Pieces, remember
from xmodal.data.text.text_config import ID_FIELDS, TextConfig, TokenAugmentConfig
from xmodal.data.text.tokenizer_files import TokenizerFile, vocabulary_file


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

    def __init__(self, file: TokenizerFile, config: TextConfig) -> None:
        """Reads a file of the config's kind of tokenizer; use `make_tokenizer` instead."""
        self._pieces = pieces = _MAKERS[config.tokenizer][1](file, config)
        self.vocabulary, self.identity = file.tokens, file.identity
        self.rules = {name: getattr(config, name) for name in (*ID_FIELDS, "max_length")}
        self.max_length, self._augment = config.max_length, config.augment
        self._cut = functools.partial(
            words.cut_text, separators=config.separators, max_words=config.max_words
        )
        ids = {token: number for number, token in reversed(list(enumerate(file)))}
        self._start, self._end = (
            [_require(ids, token) for token in each] for each in (pieces.start, pieces.end)
        )
        self.room = config.max_length - len(self._start) - len(self._end)
        self._attend_to_padding = config.attend_to_padding
        needs_pad = bool(config.pad) or config.attend_to_padding
        self._pad = _require(ids, config.pad or pieces.pad) if needs_pad else ids.get(pieces.pad, 0)
        needs_unknown = config.augment is not None and config.augment.unknown
        name = pieces.unknown
        self.unknown = _require(ids, name) if needs_unknown else ids.get(name, -1)
        if needs_mask(config):
            self._mask = _require(ids, pieces.mask)

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
        if seeds is None or self._augment is None:
            rows = [self._marked(ids) for ids in self.read(texts)]
        else:
            augment = self._change_words if self._augment.change else self._drop_tokens
            cut = map(self._cut, texts)
            rows = [augment(*each, self._augment) for each in zip(cut, seeds, strict=True)]
        lengths = np.fromiter(map(len, rows), np.int32, len(rows))
        mask = np.arange(self.max_length) < lengths[:, None]
        ids = np.full(mask.shape, self._pad, np.int32)
        ids[mask] = np.fromiter(itertools.chain.from_iterable(rows), np.int32, lengths.sum())
        return ids, np.ones_like(ids) if self._attend_to_padding else mask.astype(np.int32)

    def read(self, texts: Sequence[str]) -> list[Sequence[int]]:
        """Returns all ids of texts, without special tokens and augmentation."""
        return [self._pieces.ids_of(self._cut(text)) for text in texts]

    def as_json(self) -> str | None:
        """Returns a tokenizer.json with the same ids, padded to T; None if there cannot be one.

        Only `tokenizers` has this format: SentencePiece and words, some of which nltk splits, have
        none. Of CLIP's clean-up, it lacks the repair of broken characters and HTML.
        """
        pieces, rules = self._pieces, self.rules
        if pieces.library is None or rules["max_words"]:
            return None
        tokenizer = tokenizers.Tokenizer.from_str(pieces.library.to_str())
        steps: list[normalizers.Normalizer] = [
            normalizers.Replace(sign, " ") for sign in rules["separators"]
        ]
        if rules["canonicalize"]:
            signs = re.escape(string.punctuation.replace("_", ""))
            steps += [normalizers.Replace("_", " "), normalizers.Replace(Regex(f"[{signs}]"), "")]
        if rules["canonicalize"] or rules["tokenizer"] == "bpe":
            steps += [normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()]
        if rules["lower_case"] and rules["tokenizer"] != "wordpiece":
            steps.append(normalizers.Lowercase())
        steps += [tokenizer.normalizer] if tokenizer.normalizer else []
        tokenizer.normalizer = normalizers.Sequence(steps)
        special = {*zip((*pieces.start, *pieces.end), (*self._start, *self._end), strict=True)}
        tokenizer.post_processor = processors.TemplateProcessing(
            single=[*pieces.start, "$A", *pieces.end], special_tokens=list(special)
        )
        tokenizer.enable_truncation(self.max_length)
        pad = self.vocabulary[self._pad]
        tokenizer.enable_padding(pad_id=self._pad, pad_token=pad, length=self.max_length)
        return tokenizer.to_str()

    def _marked(self, ids: Sequence[int]) -> list[int]:
        return [*self._start, *ids[: self.room], *self._end]

    def _change_words(self, text: str, seed: np.ndarray, config: TokenAugmentConfig) -> list[int]:
        """Returns a text's ids with words masked, replaced or deleted according to the seed."""
        groups = self._pieces.by_word(text)
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

    def _drop_tokens(self, text: str, seed: np.ndarray, config: TokenAugmentConfig) -> list[int]:
        """Returns a text's ids with some made unknown and some deleted according to the seed."""
        ids = self._pieces.ids_of(text)
        replaced, order = _random_bits(seed, 2 * len(ids)).reshape(2, -1)
        uniform = _to_uniform(replaced)
        deleted = int(config.delete * len(ids))
        kept = np.argsort(order)[deleted:][: config.keep or None]
        found = np.where(uniform < config.unknown, self.unknown, np.array(ids, int))
        return self._marked(found[np.sort(kept)].tolist())


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
    split = _SPLITTERS[config.tokenizer]
    lower = str.lower if config.lower_case else str
    if config.reading == "bytes":
        return lambda text: split(lower(str(text.strip().encode())))
    if config.tokenizer == "words":
        return lambda text: [lower(word) for word in split(text)]
    return lambda text: split(lower(text))


def _make_words(file: TokenizerFile, config: TextConfig) -> Pieces:
    # If a word is listed twice, the first row counts, as in the vector files.
    rows = {word: row for row, word in reversed(list(enumerate(file)))}
    is_table = config.tokenizer == "words"
    split = words.split_words if is_table else word_splitter(config)
    find = words.find_row if is_table and config.lower_case else dict.get
    unknown = _require(rows, words.UNKNOWN) if config.unknown == "token" else None

    @remember
    def ids_of(text: str) -> tuple[int, ...]:
        found = [find(rows, word) for word in split(text)]
        if unknown is None:
            return tuple(row for row in found if row is not None)
        return tuple(unknown if row is None else row for row in found)

    start, end = ([words.START], [words.END]) if config.special_tokens == "sentence" else ([], [])
    return Pieces(ids_of, lambda text: [[token] for token in ids_of(text)], start, end)


_SPLITTERS: Mapping[str, Callable[[str], list[str]]] = {
    "ptb": words.split_ptb,
    "nltk": words.split_nltk,
    "spaces": words.split_at_spaces,
    "words": words.split_words,
}
_MAKERS: Mapping[str, tuple[str, Callable[[TokenizerFile, TextConfig], Pieces]]] = {
    "wordpiece": ("vocab.txt", pieces_lib.word_pieces),
    "bpe": ("merges.txt", pieces_lib.byte_pairs),
    "sentencepiece": ("sentencepiece.model", pieces_lib.sentence_pieces),
    "tokenizer_json": ("tokenizer.json", pieces_lib.json_pieces),
} | dict.fromkeys(_SPLITTERS, ("vocab.txt", _make_words))


def file_name(tokenizer: str) -> str:
    """Returns the name of the file that a tokenizer reads, a key of `tokenizer_files.FILES`."""
    return _MAKERS[tokenizer][0]


def make_tokenizer(config: TextConfig, vocabulary: Sequence[str]) -> Tokenizer:
    """Returns the tokenizer of a config.

    Args:
      config: see `TextConfig`.
      vocabulary: tokens in the order of their ids, with the file that they come from if it is
        not a vocab.txt.
    """
    given, wanted = vocabulary_file(vocabulary), file_name(config.tokenizer)
    if given.name != wanted:
        raise UserError(
            f"config.data.text.tokenizer={config.tokenizer!r} reads a file called {wanted}, but "
            f"config.data.text.vocabulary names a {given.name}."
        )
    return _make_once(given, config)


# Counting, training and evaluation share one tokenizer and its cache of texts and words.
_make_once = functools.lru_cache(2)(Tokenizer)
