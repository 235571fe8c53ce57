"""The command that writes the concept file of CVSE, and its counts."""

import json
import pickle
import sys

import numpy as np

from data_prep import concepts
from data_prep.concept_counts import count_concepts
from xmodal.data.text.concept_graph import read_concepts

CAPTIONS = ["Two men and a Dog.", "A man's dogs on the dog bed", "sky", "The sky over men", "sky"]
LEMMAS = {"men": "man", "dogs": "dog"}


def lemmatize(word):
    return LEMMAS.get(word, word)


def test_counts_captions_not_words():
    found = count_concepts(CAPTIONS, lemmatize=lemmatize, count=3)
    # `dog` is twice in one caption.
    assert found == {
        "concepts": ["man", "sky", "dog"],
        "forms": {"dog": 2, "dogs": 2, "man": 0, "men": 0, "sky": 1},
        "captions": [3, 3, 2],
        "joint": [[0, 1, 1], [0, 2, 2]],
    }
    assert count_concepts(CAPTIONS, count=2)["concepts"] == ["sky", "dog"]
    only_dogs = count_concepts(CAPTIONS, is_concept=lambda lemma: lemma.startswith("dog"))
    assert only_dogs["concepts"] == ["dog", "dogs"]


def test_published_words_keep_their_order_and_the_first_of_one_lemma_counts():
    found = count_concepts(CAPTIONS, lemmatize=lemmatize, concepts=["bed", "men", "cat", "man"])
    assert found["forms"] == {"bed": 0, "man": 1, "men": 1}
    assert found["captions"] == [1, 3, 0, 0]
    assert found["joint"] == [[0, 1, 1]]


def run(monkeypatch, *arguments, dataset="crisscrossed_shapes"):
    monkeypatch.setattr(sys, "argv", ["concepts", f"--dataset={dataset}", *arguments])
    concepts.main()


def test_the_command_counts_a_dataset_and_adds_vectors(few_shapes, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(concepts, "load_wordnet", lambda: (lemmatize, bool))
    (tmp_path / "category_concepts.json").write_text(
        json.dumps({"plain": 0, "background": 1, "zebu": 2})
    )
    vectors = np.arange(6, dtype=np.float32).reshape(3, 2)
    (tmp_path / "vectors.pkl").write_bytes(pickle.dumps(vectors))
    output = tmp_path / "made" / "concepts.json"
    options = [f"--data_dir={few_shapes}", "--config=images", f"--output={output}"]
    names = f"--concepts={tmp_path}/category_concepts.json"
    run(monkeypatch, *options, names, f"--word_vectors={tmp_path}/vectors.pkl")
    assert "3 concepts, 2 words that name them, 1 pairs" in capsys.readouterr().out
    found = read_concepts(output)
    np.testing.assert_array_equal(found.vectors, vectors)
    assert list(found.concept_of_word(["background", "blue", "plain"])) == [1, 3, 0]
    assert 0 < found.joint[0, 1] == found.joint[1, 0] < min(found.captions[:2]) + 1
    # A concept that no caption names has no neighbors.
    np.testing.assert_allclose(found.adjacency()[2], [0, 0, 1])
