"""Word pieces by BERT's rules, and vocabularies that are learned with tensorflow-text's tool."""

import numpy as np
import pytest
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from xmodal.data.learned_vocabulary import learn_vocabulary
from xmodal.data.text.pieces import SPECIAL_TOKENS
from xmodal.data.text.text_config import TextConfig
from xmodal.data.text.tokenizers import make_tokenizer

LENGTH = 24
VOCABULARY = [
    *SPECIAL_TOKENS, "[unused0]", "[", "]", "mask", "#", ",", "!", "2", "a", "s", "dog", "dogs",
    "un", "##aff", "##able", "ecole", "cafe", "café", "strasse", "straße", "ß", "中", "国", "日",
    "本", "aaaa", "##aaaa", "😀",
]  # fmt: skip
# Text -> pieces of a model that is uncased, and of one that is cased.
EXAMPLES = {
    "": ("", ""),
    "UNaffable,dogs!": ("un ##aff ##able , dogs !", "[UNK] , dogs !"),
    "\u00c9cole caf\u00e9 e\u0301cole": ("ecole cafe ecole", "[UNK] caf\u00e9 [UNK]"),
    "Stra\u00dfe STRASSE \u00df": ("stra\u00dfe strasse \u00df", "[UNK] [UNK] \u00df"),
    "\u4e2d\u56fd dog\u65e5\u672c\ud55c": ("中 国 dog 日 本 [UNK]",) * 2,
    "a\u00a0a\u200b\x01\ufffd\u3000s": ("a a s",) * 2,  # Spaces, and characters that vanish.
    "[MASK] [unused0] #2": ("[ mask ] [ [UNK] ] # 2", "[ [UNK] ] [ [UNK] ] # 2"),
    "a\u0301\u0302 \u0301 \U0001f600": ("a \U0001f600", "[UNK] [UNK] \U0001f600"),
    "a" * 200: ("aaaa" + 49 * " ##aaaa",) * 2,
    "a" * 201: ("[UNK]",) * 2,
}


@pytest.mark.parametrize("lower_case", [True, False])
def test_pieces_are_those_of_bert(lower_case):
    tokenizer = make_tokenizer(TextConfig(max_length=LENGTH, lower_case=lower_case), VOCABULARY)
    ids, mask = tokenizer.encode(list(EXAMPLES))
    assert ids.dtype == mask.dtype == np.int32
    for (text, pieces), row, real in zip(EXAMPLES.items(), ids, mask, strict=True):
        words = pieces[not lower_case].split()[: LENGTH - 2]
        expected = ["[CLS]", *words, "[SEP]", *["[PAD]"] * (LENGTH - 2 - len(words))]
        assert [VOCABULARY[number] for number in row] == expected, repr(text)
        assert real.sum() == len(words) + 2


@pytest.mark.slow  # It imports tensorflow.
def test_a_learned_vocabulary_is_that_of_tensorflow_text():
    import tensorflow as tf
    from tensorflow_text.tools.wordpiece_vocab import bert_vocab_from_dataset

    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(list("abcdeé, "), 12)) for _ in range(900)]
    normalizer, splitter = BertNormalizer(strip_accents=True), BertPreTokenizer()
    # Their own splitting into words has other rules for some characters.
    split = [
        " ".join(word for word, _ in splitter.pre_tokenize_str(normalizer.normalize_str(text)))
        for text in texts
    ]
    expected = bert_vocab_from_dataset.bert_vocab_from_dataset(
        tf.data.Dataset.from_tensor_slices(split).batch(100),
        vocab_size=500,
        reserved_tokens=list(SPECIAL_TOKENS),
        bert_tokenizer_params={"lower_case": False},
        learn_params={"lower_thresh": 2},
    )
    assert learn_vocabulary(texts, TextConfig(vocabulary_size=500)) == expected
