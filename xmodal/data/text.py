"""Captions to word pieces, with exactly the ids that BERT's own tokeniser gives.

`tensorflow_text.BertTokenizer` deviates from google-research/bert `tokenization.py` on awkward
input: it folds case where BERT lower-cases (German sharp s, final sigma), does not split on Unicode
spaces, replaces control characters by spaces where BERT drops them, and limits words to 100 bytes
where BERT allows 200 characters. Here the text is normalised by BERT's rules first and the parts of
BertTokenizer (splitting, word pieces) do the rest. Captions of printable ASCII, nearly all of them,
need none of that: on them `FastWordpieceTokenizer` alone does what BERT does, in a tenth of the
time.
"""

from collections.abc import Sequence

import tensorflow as tf
import tensorflow_text as tf_text

from xmodal.config import UserError
from xmodal.data.config import TextConfig

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")

_MAX_CHARS_PER_WORD = 200
# ASCII symbols count as punctuation whatever their Unicode class; every CJK ideograph is a word.
_SINGLE_CHAR_WORDS = (
    r"[!-/:-@\[-`{-~\p{P}"
    r"\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{20000}-\x{2A6DF}\x{2A700}-\x{2B73F}"
    r"\x{2B740}-\x{2B81F}\x{2B820}-\x{2CEAF}\x{F900}-\x{FAFF}\x{2F800}-\x{2FA1F}]"
)


class Tokenizer:
    """Turns captions into padded ids: [CLS] pieces [SEP], cut to `max_length`, [PAD] to the end.

    Attributes:
      vocabulary: the word pieces, in the order of their ids.
    """

    def __init__(self, vocabulary: Sequence[str], config: TextConfig) -> None:
        missing = [token for token in SPECIAL_TOKENS[:4] if token not in vocabulary]
        if missing:
            raise UserError(
                f"the vocabulary ({len(vocabulary)} entries) lacks {', '.join(missing)}; "
                "a BERT vocab.txt has one token per line and all of these"
            )
        if config.max_length < 3:
            raise UserError(f"config.data.text.max_length is {config.max_length}; at least 3")
        self.vocabulary = tuple(vocabulary)
        self._config = config
        self._pad, self._cls, self._sep = (
            self.vocabulary.index(token) for token in ("[PAD]", "[CLS]", "[SEP]")
        )
        self._plain_pieces = tf_text.FastWordpieceTokenizer(
            list(vocabulary), max_bytes_per_word=_MAX_CHARS_PER_WORD, token_out_type=tf.int32
        )
        # Same pieces as the WordpieceTokenizer inside BertTokenizer, in a tenth of the time.
        self._word_pieces = tf_text.FastWordpieceTokenizer(
            list(vocabulary),
            max_bytes_per_word=4 * _MAX_CHARS_PER_WORD,
            token_out_type=tf.int32,
            no_pretokenization=True,
        )

    def __call__(self, captions: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Tokenises UTF-8 strings of any static shape [...].

        Returns:
          Ids int32 [..., T] and a mask int32 [..., T] that is 1 on real tokens, with T the
          configured `max_length`.
        """
        length = self._config.max_length
        pieces = self._tokenise(tf.reshape(captions, [-1]))[:, : length - 2]
        rows = pieces.nrows()
        ids = tf.concat(
            [tf.fill([rows, 1], self._cls), pieces, tf.fill([rows, 1], self._sep)], axis=1
        )
        mask = tf.sequence_mask(ids.row_lengths(), length, tf.int32)
        ids = ids.to_tensor(self._pad, shape=[None, length])
        shape = tf.concat([tf.shape(captions), [length]], axis=0)
        return tf.reshape(ids, shape), tf.reshape(mask, shape)

    def _tokenise(self, captions: tf.Tensor) -> tf.RaggedTensor:
        """Word pieces of UTF-8 strings [N], ragged [N, pieces]."""
        is_plain = tf.strings.regex_full_match(captions, "[ -~]*")
        return tf.cond(
            tf.reduce_all(is_plain),
            lambda: self._plain_pieces.tokenize(self._lowered(captions)),
            lambda: self._tokenise_mixed(captions, is_plain),
        )

    def _tokenise_mixed(self, captions: tf.Tensor, is_plain: tf.Tensor) -> tf.RaggedTensor:
        """As `_tokenise`, with the exact rules for the rows that are not `is_plain`."""
        plain, other = (tf.where(mask)[:, 0] for mask in (is_plain, ~is_plain))
        words = split_words(normalize(tf.gather(captions, other), self._config.lower_case))
        # BERT's limit is in characters, the word-piece tokeniser's in bytes.
        too_long = tf.strings.length(words.flat_values, "UTF8_CHAR") > _MAX_CHARS_PER_WORD
        words = words.with_flat_values(tf.where(too_long, "[UNK]", words.flat_values))
        pieces = tf.concat(
            [
                self._plain_pieces.tokenize(self._lowered(tf.gather(captions, plain))),
                self._word_pieces.tokenize(words).merge_dims(-2, -1),
            ],
            axis=0,
        )
        return tf.gather(pieces, tf.math.invert_permutation(tf.concat([plain, other], axis=0)))

    def _lowered(self, plain: tf.Tensor) -> tf.Tensor:
        return tf.strings.lower(plain) if self._config.lower_case else plain


def normalize(captions: tf.Tensor, lower_case: bool) -> tf.Tensor:
    """BERT's cleaning of UTF-8 strings, by the rules of its BasicTokenizer.

    Invalid bytes, control characters and U+FFFD vanish and every kind of space becomes a blank; for
    uncased models letters are lower-cased, decomposed (NFD) and lose their accents.
    """
    text = tf.strings.unicode_transcode(captions, "UTF-8", "UTF-8", errors="ignore")
    text = tf.strings.regex_replace(text, r"[\t\n\r\p{Z}]+", " ")
    text = tf.strings.regex_replace(text, r"[\p{Cc}\p{Cf}\x{FFFD}]+", "")
    if lower_case:
        # ASCII first, because the Unicode rules follow the locale (Turkish: I to dotless i).
        text = tf.strings.lower(tf.strings.lower(text), encoding="utf-8")
        text = tf_text.normalize_utf8(text, "NFD")
        text = tf.strings.regex_replace(text, r"\p{Mn}+", "")
    return text


def split_words(text: tf.Tensor) -> tf.RaggedTensor:
    """Splits normalised strings [N] at blanks and around punctuation and CJK; ragged [N, words]."""
    return tf_text.regex_split(text, " |" + _SINGLE_CHAR_WORDS, _SINGLE_CHAR_WORDS)
