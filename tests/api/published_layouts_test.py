"""Tokenizers of published folders give our ids, by transformers' own classes."""

import json

import numpy as np
import pytest

from tests.data.text.tiny_pieces import sentencepiece_model, tokenizer_json
from xmodal.api.published_layouts import layout_tokenizer
from xmodal.data.text.text_config import TextConfig
from xmodal.data.text.tokenizer_files import parse_file, read_vocabulary
from xmodal.data.text.tokenizers import make_tokenizer

TEXTS = [
    "", "a photo of a CAT", "The  café's\tmenu,\nthree naïve Größen!", "it's 1234 o'clock #hash_t",
    "чёрная кошка 猫が好き 🐈‍⬛", "a very long text " * 20,
    "<|endoftext|> inside", "x" * 90,
]  # fmt: skip
PLAIN = ["the cat", "THE  HAT sat", "", "a bat at that hat " * 20, "größe 猫"]


def pieces():
    words = "[PAD] [UNK] [CLS] [SEP] [MASK] the cat ##s a photo of it ' s ! , ## 1 ##2 cafe ##e"
    letters = "abcdefghijklmnopqrstuvwxyz0123456789"
    more = [*(x for x in letters if x not in "as1"), *(f"##{x}" for x in letters)]
    return "".join(f"{word}\n" for word in dict.fromkeys([*words.split(), *more])).encode()


def clip_merges():
    return read_vocabulary("pip:open-clip-torch")


CASES = {
    "wordpiece": ({}, lambda: parse_file("vocab.txt", pieces(), "x"), TEXTS),
    "bpe": ({}, clip_merges, TEXTS),
    "sentencepiece": (
        {"end": "</s>", "pad": "</s>", "attend_to_padding": True},
        lambda: parse_file("sentencepiece.model", sentencepiece_model(), "x"), PLAIN,
    ),
    "tokenizer_json": (
        {"pad": "[PAD]", "attend_to_padding": True},
        lambda: parse_file("tokenizer.json", tokenizer_json(), "x"), TEXTS,
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", CASES)
def test_ids_are_equal(kind, tmp_path):
    """Also of long texts, of capitals and of other scripts."""
    transformers = pytest.importorskip("transformers", reason="its tokenizers read the files")
    settings, read, texts = CASES[kind]
    config, file = TextConfig(tokenizer=kind, max_length=16, **settings), read()
    for name, content in layout_tokenizer(config, file).items():
        raw = content if isinstance(content, bytes) else json.dumps(content).encode()
        (tmp_path / name).write_bytes(raw)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert theirs.model_max_length == 16
    found = theirs(texts, padding="max_length", truncation=True)
    ids, mask = make_tokenizer(config, file).encode(texts)
    assert ("attention_mask" in found) != config.attend_to_padding
    for row, wanted, own in zip(found["input_ids"], ids, mask, strict=True):
        np.testing.assert_array_equal(np.array(row)[own > 0], wanted[own > 0])
        assert len(row) == 16
