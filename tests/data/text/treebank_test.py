"""nltk's tokenizers on captions of one and several sentences."""

import pytest

from xmodal.data.text.treebank import split_nltk, split_ptb


@pytest.mark.parametrize("split", [split_ptb, split_nltk])
def test_periods_of_all_sentences_stand_alone(split):
    assert split("A man's dog can't run. He sits down! Does she?") == [
        *("A", "man", "'s", "dog", "ca", "n't", "run", "."),
        *("He", "sits", "down", "!", "Does", "she", "?"),
    ]
    assert split("a dog runs. the ball rolls .") == [
        *("a", "dog", "runs", ".", "the", "ball", "rolls", "."),
    ]
    assert split("") == []


@pytest.mark.parametrize("split", [split_ptb, split_nltk])
@pytest.mark.parametrize("text", ["It costs $3.50, i.e. 1,000 in all", "wait... what", "a.b c"])
def test_the_way_around_the_sentence_splitter_changes_nothing(split, text):
    # A text is passed to Punkt only if it may contain two sentences.
    from nltk.tokenize import NLTKWordTokenizer, PunktSentenceTokenizer, TreebankWordTokenizer

    words = {split_ptb: TreebankWordTokenizer(), split_nltk: NLTKWordTokenizer()}[split]
    for variant in (text, text + ".", text.replace(".", "")):
        sentences = PunktSentenceTokenizer().tokenize(variant)
        assert split(variant) == [word for each in sentences for word in words.tokenize(each)]
