"""Texts as bags of words: tokens, lookup, means and coverage."""

import csv
import gzip

import numpy as np
import parity
import pytest

from xmodal.data.text.words import split_words
from xmodal.pretrained.bag_of_words import embed_texts, make_vocabulary
from xmodal.pretrained.word_vectors import WordVectors, load_word_vectors


def make_words(*words, dim=3):
    vectors = np.random.default_rng(0).normal(size=(len(words), dim)).astype(np.float32)
    return WordVectors({word: row for row, word in enumerate(words)}, vectors)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("A dog's ball.", ["A", "dog", "'s", "ball", "."]),
        (
            "They don't, WON'T and can't",
            ["They", "do", "n't", ",", "WO", "N'T", "and", "ca", "n't"],
        ),
        ("they\u2019re", ["they", "'re"]),
        ("a red-and-white 2-story bus", ["a", "red-and-white", "2-story", "bus"]),
        ("1,000 at 3:45 (3.5)", ["1,000", "at", "3:45", "(", "3.5", ")"]),
        ("wait... 'so' what?!", ["wait", "...", "'", "so", "'", "what", "?", "!"]),
        ("dogs' toys -  and/or\ncafé ", ["dogs", "'", "toys", "-", "and", "/", "or", "café"]),
        (" \n", []),
    ],
)
def test_tokens(text, tokens):
    assert split_words(text) == tokens


def test_the_known_tokens_are_averaged():
    words = make_words("a", "dog", "A", ".", "n't")
    texts = ["a dog a cat.", "A Dog", "unheard of", "", "DON'T"]
    bags = [[0, 1, 0, 3], [2, 1], [], [], [4]]
    embeddings, coverage = embed_texts(texts, words)
    expected = [
        np.mean([words.vectors[i].astype(np.float64) for i in bag], axis=0) if bag else np.zeros(3)
        for bag in bags
    ]
    assert embeddings.dtype == np.float32
    np.testing.assert_allclose(embeddings, expected, rtol=1e-6)
    assert (coverage.tokens, coverage.known_tokens) == (11, 7)
    assert (coverage.texts, coverage.empty_texts) == (5, 2)
    assert coverage.share == 7 / 11


def test_the_order_of_words_changes_no_bit():
    words = make_words(*"abcdefghij", dim=50)
    orders = [np.random.default_rng(seed).permutation(list("abcdefghij")) for seed in range(20)]
    embeddings, _ = embed_texts([" ".join(order) for order in orders], words)
    np.testing.assert_array_equal(embeddings, np.broadcast_to(embeddings[0], embeddings.shape))


def test_a_vocabulary_is_all_that_is_looked_up(tmp_path):
    texts = ["A Dog's toy", "the DOG"]
    words = ["the", "dog", "'s", "Dog", "a", "cat"]
    lines = [f"{word} {row} 1\n" for row, word in enumerate(words)]
    (tmp_path / "words.txt").write_text("".join(lines))
    whole = load_word_vectors(tmp_path / "words.txt")
    part = load_word_vectors(tmp_path / "words.txt", make_vocabulary(texts))
    assert set(part.rows) == set(words) - {"cat"}
    np.testing.assert_array_equal(embed_texts(texts, part)[0], embed_texts(texts, whole)[0])


def test_captions_in_real_glove_vectors():
    glove = parity.real_file("weights/glove_6B_200d_flickr8k_words.npz")
    captions = parity.real_file("coco/captions_val2014_known.csv.gz")
    with gzip.open(captions, "rt", encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["karpathy_split"] == "test"][:500]
    embeddings, coverage = embed_texts([row["caption"] for row in rows], load_word_vectors(glove))
    assert 0.6 < coverage.share < 0.8
    embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
    similar = embeddings @ embeddings.T
    images = np.array([row["image_id"] for row in rows])
    np.fill_diagonal(similar, -1)
    # The nearest caption belongs to the same image far more often than 4 times in 499.
    assert np.mean(images[similar.argmax(axis=1)] == images) > 0.3
