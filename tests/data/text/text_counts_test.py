"""Texts that are cut or have no known word, for every kind of tokenizer."""

import pytest

from tests.data.text import tiny_pieces
from xmodal.data.text.text_config import TextConfig
from xmodal.data.text.text_counts import TextCounts, count_texts
from xmodal.data.text.tokenizer_files import parse_file
from xmodal.data.text.tokenizers import make_tokenizer

WORDS = ["<pad>", "<start>", "<end>", "<unk>", "a", "red", "dog", "runs", ".", ","]
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "red", "dog", "runs", ".", "##s"]
FOREIGN = ["红色的狗.", "狗, 白色.", "\N{SNOWMAN}!"]
PLAIN = ["a red dog runs.", "a dog"]


def counts_of(texts, tokenizer="nltk", vocabulary=WORDS, **options):
    return count_texts(make_tokenizer(TextConfig(tokenizer, **options), vocabulary), texts)


@pytest.mark.parametrize("unknown", ["drop", "token"])
@pytest.mark.parametrize("tokenizer", ["nltk", "ptb", "spaces", "words"])
def test_known_punctuation_is_no_known_word(tokenizer, unknown):
    found = counts_of([*PLAIN, *FOREIGN, " "], tokenizer, unknown=unknown)
    assert (found.texts, found.unknown, found.cut) == (6, 4, 0)


def test_pieces_of_unknown_words_are_unknown_and_bytes_are_known():
    assert counts_of([*PLAIN, *FOREIGN], "wordpiece", PIECES).unknown == 3
    for name, make, kind in (
        ("sentencepiece.model", tiny_pieces.sentencepiece_model, "sentencepiece"),
        ("tokenizer.json", tiny_pieces.tokenizer_json, "tokenizer_json"),
    ):
        file = parse_file(name, make(), name)
        assert counts_of(["a red star", "狗", "\N{SNOWMAN}"], kind, file).unknown == 2
    pytest.importorskip("ftfy")
    merges = parse_file("merges.txt", b"a b\nr e\n", "merges.txt")
    assert counts_of(["狗", "שלום"], "bpe", merges).unknown == 0


def test_cut_texts():
    texts = ["a red dog runs a", "a red dog runs.", "a red dog", "dog runs"]
    found = counts_of(texts, max_length=3)
    assert found == TextCounts(texts=4, unknown=0, cut=2, max_length=3)
    # Special tokens take room.
    assert counts_of(texts, max_length=4, special_tokens="sentence").cut == 3
    said = "2 of 4 captions are longer than max_length=3 and are cut."
    assert found.describe("captions") == said
