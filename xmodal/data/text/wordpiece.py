"""Converts texts to the word pieces of BERT with the library `tokenizers`.

The rules are those of `tokenization.py` in google-research/bert, except for characters that
Unicode does not assign or that it assigned lately, and for a capital sigma that ends a word.
"""

import collections
import functools
from collections.abc import Sequence

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from xmodal.core.errors import UserError
from xmodal.data.text.words import ids_by_word

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")

_MAX_CHARS_PER_WORD = 200
_REMEMBERED = 2**17  # Texts whose ids are cached; less than 100 MB.


class WordPieces:
    """Turns texts into ids of word pieces, without special tokens around them."""

    def __init__(self, vocabulary: Sequence[str], lower_case: bool) -> None:
        """Prepares the lookup.

        Args:
          vocabulary: word pieces in the order of their ids.
          lower_case: whether the model is uncased: lower-case letters and strip accents.

        Raises:
          UserError: the vocabulary lacks a special token.
        """
        if missing := [token for token in SPECIAL_TOKENS[:4] if token not in vocabulary]:
            raise UserError(
                f"the vocabulary ({len(vocabulary)} entries) lacks {', '.join(missing)}; "
                "a BERT vocab.txt has one token per line and all of these"
            )
        ids = {token: number for number, token in enumerate(vocabulary)}
        self._tokenizer = Tokenizer(
            models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=_MAX_CHARS_PER_WORD)
        )
        self._tokenizer.normalizer = _normalizer(lower_case)
        self._tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        # Every epoch has each caption.
        self._ids_of = functools.lru_cache(_REMEMBERED)(self._encode)

    def __call__(self, text: str) -> tuple[int, ...]:
        """Returns the ids of the word pieces of a text."""
        return self._ids_of(text)

    def _encode(self, text: str) -> tuple[int, ...]:
        return tuple(self._tokenizer.encode(text).ids)

    def by_word(self, text: str) -> list[list[int]]:
        """Returns the ids of the pieces of every word and every punctuation mark of a text."""
        return ids_by_word(self._tokenizer.encode(text))


def count_words(texts: Sequence[str], lower_case: bool) -> dict[str, int]:
    """Returns how often texts have each of the words and punctuation marks that have pieces."""
    normalize, split = _normalizer(lower_case), pre_tokenizers.BertPreTokenizer()
    return collections.Counter(
        word for text in texts for word, _ in split.pre_tokenize_str(normalize.normalize_str(text))
    )


def _normalizer(lower_case: bool) -> normalizers.BertNormalizer:
    return normalizers.BertNormalizer(strip_accents=lower_case, lowercase=lower_case)
