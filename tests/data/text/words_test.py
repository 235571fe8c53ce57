"""Texts split into words: for published vectors, by nltk, and cut as for BLIP; and learned."""

import re

import pytest

from xmodal.data.text.words import (
    WORD_TOKENS,
    cut_text,
    learn_words,
    split_nltk,
    split_ptb,
    split_words,
)


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


@pytest.mark.parametrize(("min_count", "words"), [(1, "c a b d zz"), (2, "c a b"), (3, "c")])
def test_frequent_words_come_first_and_rare_ones_are_cut(min_count, words):
    found = learn_words(["c b a", "d c a", "<unk> b zz c"], str.split, min_count)
    assert found == [*WORD_TOKENS, *words.split()]
