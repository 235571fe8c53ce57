"""Word pieces against BERT's published rules, implemented here one character at a time.

Not compared: characters that Unicode does not assign, and a capital sigma at the end of a word,
which Python makes a final one.
"""

# ruff: noqa: RUF001, SIM905 (look-alike letters are tested; a list has one per line)

import random
import unicodedata

import numpy as np
import pytest

from xmodal.data.learned_vocabulary import learn_vocabulary
from xmodal.data.text import pieces
from xmodal.data.text.text_config import TextConfig
from xmodal.data.text.tokenizers import make_tokenizer

_LENGTH = 64

# A vocabulary like BERT's: words, pieces, single letters, ideographs, punctuation.
_BERT_LIKE = (
    "[PAD] [unused0] [UNK] [CLS] [SEP] [MASK] ! \" # $ % & ' ( ) * + , - . / : ; < = > ? @ [ \\ ] "
    "^ _ ` { | } ~ 0 1 2 9 a b c d e s u α ς σ 中 国 日 本 한 ß ı « ¿ … – ’ “ 。 # ##0 ##1 ##9 "
    "##a ##able ##aff ##ing ##s ##t ##u ##n ##e ##r ##ß ##ς ##σ ##本 ##\u0301 ##한 un unaff want "
    "dog dogs the strasse straße ecole cafe naive resume hello world σας istanbul www com http "
    "aaaa ##aaaa 😀 ##😀 🏽 👍 x ² ½ ㎏ fi ﬁ unk cls sep mask pad"
).split(" ")
_BERT_LIKE = list(dict.fromkeys(_BERT_LIKE))


# --- the rules of BasicTokenizer and WordpieceTokenizer in google-research/bert ---


def _clean(text):
    kept = []
    for char in text:
        if char in "\t\n\r" or unicodedata.category(char) == "Zs":
            kept.append(" ")
        elif char not in "\0\ufffd" and unicodedata.category(char) not in ("Cc", "Cf"):
            kept.append(char)
    return "".join(kept)


_CJK = (
    *range(0x4E00, 0xA000),
    *range(0x3400, 0x4DC0),
    *range(0x20000, 0x2A6E0),
    *range(0x2A700, 0x2B740),
    *range(0x2B740, 0x2B820),
    *range(0x2B820, 0x2CEB0),
    *range(0xF900, 0xFB00),
    *range(0x2F800, 0x2FA20),
)
_CJK = frozenset(map(chr, _CJK))


def _is_punctuation(char):
    ascii_symbol = 33 <= ord(char) <= 126 and not char.isalnum()
    return ascii_symbol or unicodedata.category(char).startswith("P")


def _words(text, lower_case):
    spaced = "".join(f" {char} " if char in _CJK else char for char in _clean(text))
    for token in spaced.split():
        if lower_case:
            decomposed = unicodedata.normalize("NFD", token.lower())
            token = "".join(char for char in decomposed if unicodedata.category(char) != "Mn")
        separated = "".join(f" {char} " if _is_punctuation(char) else char for char in token)
        yield from separated.split()


def _pieces(word, vocabulary):
    if len(word) > 200:
        return ["[UNK]"]
    pieces, start = [], 0
    while start < len(word):
        prefix = "##" if start else ""
        ends = (e for e in range(len(word), start, -1) if prefix + word[start:e] in vocabulary)
        end = next(ends, None)
        if end is None:
            return ["[UNK]"]
        pieces.append(prefix + word[start:end])
        start = end
    return pieces


def _reference(text, vocabulary, lower_case=True):
    ids = {token: number for number, token in enumerate(vocabulary)}
    pieces = [piece for word in _words(text, lower_case) for piece in _pieces(word, ids)]
    tokens = ["[CLS]", *pieces[: _LENGTH - 2], "[SEP]"]
    return [ids[token] for token in tokens] + [ids["[PAD]"]] * (_LENGTH - len(tokens))


_AWKWARD = [
    "",
    "\t\n\r",
    "UNwanted,running dogs!",
    "École café naïve RÉSUMÉ e\u0301cole cafe\u0301",
    "Straße STRASSE straße ẞ ß σας σ İstanbul ISTANBUL ıstanbul Iı",
    "ŉ ǰ ﬁ ﬁx ﬀ Ǆ ǅ ᾼ ΐ ꭰᎠ Ꭰ ⴀ Ⴀ Ⅷ ⓐ Ａｂｃ ａ",
    "中国 dog日本 日本dog中国 한국어 한국",
    "\U00020000\U0002a700\U0002b740\U0002b920 \uf900 \U0002f800 \u3400\u4dbf \u9fff \ufaff\ufb00",
    "a\u00a0b\u2003c\u3000d\u2028e\u2029f\u202fg\u1680h\u200bi\u200dj\ufeffk\u00adl\u2060m",
    "a\x00b a\x01b a\x0bb a\x0cb a\x1cb a\x7fb a\x85b a\ufffdb",
    "😀 👍🏽 👩\u200d👩\u200d👧 a😀 😀😀 ☕️ ❤️",
    "0 1 2 9 1999 3.14 1,000 10% $9 ² ½ ㎏ ① hello–world hello…world",
    "[CLS] [SEP] [MASK] [PAD] [UNK] [unused0] [unk] ## ##ing #ing # # ##",
    "\u0301 a\u0301\u0302 \u0301\u0302 x\u20dd a\u0345 \u0130\u0307 i\u0307 \u1fef \u037e \u2260",
    "กำ ำ नमस्ते นि עִבְרִית عَرَبِيّ e\u0323\u0307 \u1e69 s\u0323\u0307 \u212b \u2126 \u00c5",
    *("a" * 200, "a" * 201, "σ" * 200, "e\u0301" * 200, "dog " * 70, ",".join("a" * 120)),
]


def _fuzz(count):
    rng = random.Random(0)
    alphabet = sorted(set("".join(_AWKWARD)) | set("  abcdesu019"))
    return ["".join(rng.choices(alphabet, k=rng.randint(1, 24))) for _ in range(count)]


def _rows(texts, vocabulary, **config):
    return make_tokenizer(TextConfig(max_length=_LENGTH, **config), vocabulary).encode(texts)


@pytest.mark.parametrize("lower_case", [True, False])
def test_ids_equal_those_of_bert(lower_case):
    texts = [*_AWKWARD, *_fuzz(400)]
    ids, mask = _rows(texts, _BERT_LIKE, lower_case=lower_case)
    assert ids.dtype == mask.dtype == np.int32
    for row, row_mask, text in zip(ids, mask, texts, strict=True):
        expected = _reference(text, _BERT_LIKE, lower_case)
        assert row.tolist() == expected, repr(text)
        assert row_mask.tolist() == [int(token != 0) for token in expected], repr(text)


@pytest.mark.slow  # It imports tensorflow.
@pytest.mark.parametrize("lower_case", [True, False])
def test_a_learned_vocabulary_is_that_of_tensorflow_text(lower_case):
    import tensorflow as tf
    from tensorflow_text.tools.wordpiece_vocab import bert_vocab_from_dataset

    texts = [*_AWKWARD, *_fuzz(300)] * 3
    # Their own splitting into words has other rules for some characters.
    split = [" ".join(_words(text, lower_case)) for text in texts]
    expected = bert_vocab_from_dataset.bert_vocab_from_dataset(
        tf.data.Dataset.from_tensor_slices(split).batch(100),
        vocab_size=500,
        reserved_tokens=list(pieces.SPECIAL_TOKENS),
        bert_tokenizer_params={"lower_case": False},
        learn_params={"lower_thresh": 2},
    )
    config = TextConfig(vocabulary_size=500, lower_case=lower_case)
    assert learn_vocabulary(texts, config) == expected
