"""Texts that are cut, have no known word or are empty, for every kind of tokenizer."""

import pytest

from tests.data.text import tiny_pieces
from xmodal.data.text.text_config import TextConfig
from xmodal.data.text.text_counts import TextCounts, count_texts, is_blank
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
    found = counts_of([*PLAIN, *FOREIGN], tokenizer, unknown=unknown)
    assert (found.texts, found.unknown, found.empty, found.cut) == (5, 3, 0, 0)


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


def test_cut_texts_and_those_that_are_equal_after_it():
    same = ["a red dog runs a", "a red dog runs.", "a red dog", "red dog a red"]
    found = counts_of([*same, "dog runs", same[0]], max_length=3)
    assert found == TextCounts(texts=6, empty=0, unknown=0, cut=4, equal=3, max_length=3)
    # Markers take room, and equal texts were equal before.
    assert counts_of(same, max_length=5, special_tokens="sentence").equal == 2
    assert counts_of([same[0]] * 3, max_length=3).equal == 0
    # Only words that are not in the vocabulary differ.
    assert counts_of([f"a red dog runs {number}" for number in range(5)], max_length=3).equal == 5
    assert found.describe("captions") == (
        "4 of 6 captions are longer than max_length=3 and are cut; 3 of these equal others after "
        "that."
    )
    assert "are cut; all equal others" in counts_of(same[:2], max_length=3).describe("captions")


@pytest.mark.parametrize("blank", ["", "  ", "\t\n", "\N{NO-BREAK SPACE}", "\N{ZERO WIDTH SPACE}"])
def test_blank_texts_are_empty(blank):
    assert is_blank(blank)
    assert not is_blank(f"{blank}.")
    found = counts_of([blank, *PLAIN])
    assert (found.empty, found.unknown) == (1, 0)
    assert found.describe("texts") == "1 of 3 texts are empty."
