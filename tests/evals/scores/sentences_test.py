"""Files of sentence embeddings, joined to a split by their texts."""

import dataclasses
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

from xmodal.core.errors import UserError
from xmodal.evals.scores.arrays import open_arrays
from xmodal.evals.scores.files import open_items
from xmodal.evals.scores.sentences import read_sentences

TEXTS = ["a dog", "a cat ", "no dog", "a dog"]
VECTORS = np.float32([[1, 0], [0, 1], [1, 1], [1, 0]])
FILE = {"sentences": np.array(TEXTS), "sentence_embeddings": VECTORS}
SPLIT = SimpleNamespace(
    name="semeval_sts", caption_ids=np.array([7, 9, 4]), caption_texts=["a cat", " no dog", "a dog"]
)


def load_sentences(source):
    return read_sentences(*open_arrays(source, "embeddings"))


def test_captions_are_found_by_their_texts(tmp_path):
    path = tmp_path / "model.npz"
    np.savez(path, **FILE, similarity="cosine", other=np.zeros(3))
    found = open_items("embeddings", path).items(SPLIT)
    np.testing.assert_array_equal(found.caption_ids, [7, 9, 4])
    np.testing.assert_array_equal(found.captions, VECTORS[[1, 2, 0]])
    assert (found.images, found.similarity, found.place) == (None, "cosine", str(path))
    split = dataclasses.replace(load_sentences(FILE), vectors=VECTORS[:, None])
    assert split.items(SPLIT).captions.shape == (3, 1, 2)


@pytest.mark.parametrize(
    ("dtype", "rounding", "different"),
    [
        (np.float32, 1e-6, 1e-4),
        (np.float64, 1e-7, 1e-4),
        (np.float16, 1e-3, 2e-2),
        (ml_dtypes.bfloat16, 1e-2, 1e-1),
    ],
)
def test_embeddings_that_differ_by_rounding(tmp_path, dtype, rounding, different):
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(4, 37))

    def load(difference):
        vectors[3] = vectors[0] * (1 + difference * rng.choice([-1, 1], 37))
        path = tmp_path / "model.npz"
        np.savez(path, sentences=np.array(TEXTS), sentence_embeddings=vectors.astype(dtype))
        return load_sentences(path)

    found = load(rounding)
    assert found.rows == {"a dog": 0, "a cat": 1, "no dog": 2}
    assert ["1 of 3 sentences have several emb" in note for note in found.notes] == [True]
    assert load(0.0).notes == []
    with pytest.raises(UserError, match="different embeddings for 'a dog', in rows 0 and 3"):
        load(different)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"sentence_embeddings": None}, "holds .'sentences'.; sentence embeddings are"),
        (
            {"sentences": np.array([1, 2, 3, 4])},
            "sentences in .* are int64 .4.; they must be strings",
        ),
        ({"sentence_embeddings": VECTORS[:3]}, "has 3 rows of sentence_embeddings and 4 sentences"),
        ({"sentence_embeddings": VECTORS * np.nan}, "4 of 4 rows hold NaN"),
        (
            {"sentence_embeddings": np.float32([[1, 0], [0, 1], [1, 1], [0, 0]])},
            "two different embeddings for 'a dog', in rows 0 and 3",
        ),
        ({"similarity": np.array([1])}, "similarity in .*, not one name"),
    ],
)
def test_files_that_do_not_fit(changed, message):
    arrays = {name: each for name, each in (FILE | changed).items() if each is not None}
    with pytest.raises(UserError, match=message):
        load_sentences(arrays)


def test_a_sentence_without_an_embedding():
    split = SimpleNamespace(**vars(SPLIT) | {"caption_texts": ["a cat", "a cow", "two cows"]})
    message = "no embedding for 2 of the 3 sentences of semeval_sts; the first is 'a cow'"
    with pytest.raises(UserError, match=message):
        load_sentences(FILE).items(split)
