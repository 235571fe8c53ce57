"""Words that are in a vocabulary, for every word tokenizer."""

import pytest

from xmodal.preprocessing import TextConfig
from xmodal.preprocessing.text_config import SUBWORDS
from xmodal.runs.evaluation.sentence_notes import describe_words

CAPTIONS = ["A dog runs.", "Two cats", "Zebras"]


@pytest.mark.parametrize(
    ("tokenizer", "known"),
    [
        ("ptb", "4 of 7 words (57.1%)"),
        # The blank inserted after a period leaves an empty word.
        ("spaces", "4 of 8 words (50.0%)"),
        ("words", "4 of 7 words (57.1%)"),
    ],
)
def test_words_that_have_a_vector(tokenizer, known):
    vocabulary = ["<pad>", "<start>", "<end>", "<unk>", "a", "dog", ".", "cats"]
    found = describe_words(TextConfig(tokenizer=tokenizer), vocabulary, CAPTIONS)
    assert found == [f"{known} have a vector; 1 of 3 captions have none."]


def test_words_that_are_not_read_do_not_count():
    config = TextConfig(tokenizer="words", separators="-", max_words=2)
    found = describe_words(config, ["a", "dog", "barks"], ["a-dog barks", "Zebras-a dog"])
    assert found == ["3 of 4 words (75.0%) have a vector; 0 of 2 captions have none."]


@pytest.mark.parametrize("tokenizer", SUBWORDS)
def test_pieces_of_words_are_always_there(tokenizer):
    assert describe_words(TextConfig(tokenizer), [], CAPTIONS) == []
