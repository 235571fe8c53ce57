"""Texts split into words: for published vectors, by nltk, and cut as for BLIP."""

import re

import pytest

from xmodal.data.text.words import cut_text, split_nltk, split_ptb, split_words


def test_words_are_cut_as_those_of_published_vectors():
    assert split_words("Don't! The dog's well-known 1,000 balls... “yes” it\u2019s") == [
        *("Do", "n't", "!", "The", "dog", "'s", "well-known", "1,000", "balls", "..."),
        *("“", "yes", "”", "it", "'s"),
    ]
    assert split_words(" \n") == []


@pytest.mark.parametrize("split", [split_ptb, split_nltk])
@pytest.mark.parametrize("text", ["It costs $3.50, i.e. 1,000 in all", "wait... what", "a.b c"])
def test_the_way_around_the_sentence_splitter_changes_nothing(split, text):
    # A text is passed to Punkt only if it may contain two sentences.
    from nltk.tokenize import NLTKWordTokenizer, PunktSentenceTokenizer, TreebankWordTokenizer

    words = {split_ptb: TreebankWordTokenizer(), split_nltk: NLTKWordTokenizer()}[split]
    for variant in (text, text + ".", text.replace(".", "")):
        sentences = PunktSentenceTokenizer().tokenize(variant)
        assert split(variant) == [word for each in sentences for word in words.tokenize(each)]


@pytest.mark.parametrize("text", ["A dog (brown).  It runs!", "a\n b:c ~d", "x " * 40, ""])
def test_cuts_captions_as_blip_does(text):
    """The rule of salesforce/BLIP's `pre_caption`, written with its regular expressions."""
    spaced = re.sub(r"([.!\"()*#:;~])", " ", text)
    expected = " ".join(re.sub(r"\s{2,}", " ", spaced).strip().split()[:30])
    assert cut_text(text, separators='.!"()*#:;~', max_words=30) == expected
    assert cut_text(text, separators="", max_words=0) == text
