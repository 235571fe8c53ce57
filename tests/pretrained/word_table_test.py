"""Files of word vectors as the word table of a tower."""

import numpy as np
import pytest

from xmodal.core.errors import UserError
from xmodal.pretrained.converters import convert

LINES = [
    ("the", [1.0, 2.0]),
    ("Dog", [-0.5, 0.25]),
    ("at name@domain", [9.0, 9.0]),  # GloVe 840B has such words
    ("dog", [3.0, 4.0]),
    ("\u00a0.", [8.0, 8.0]),
    ("the", [7.0, 7.0]),
    ("café", [0.0, -1.0]),
]


@pytest.fixture
def glove(tmp_path):
    path = tmp_path / "glove.txt"
    lines = [f"{word} {' '.join(map(str, vector))}\n" for word, vector in LINES]
    path.write_text("".join(lines), encoding="utf-8")
    return path


def test_every_word_that_can_be_found_keeps_its_vector(glove):
    arrays, description, _ = convert("words", glove)
    assert description.encoder == {"name": "words", "vocab_size": 4, "width": 2}
    assert description.head == {"name": "mean"}
    assert description.files["vocab.txt"] == "the\nDog\ndog\ncafé\n".encode()
    assert list(arrays) == ["params/encoder/table"]
    expected = [dict(reversed(LINES))[word] for word in ("the", "Dog", "dog", "café")]
    np.testing.assert_array_equal(arrays["params/encoder/table"], np.array(expected, np.float32))


def test_words_of_a_vocabulary_are_kept(glove, tmp_path):
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("<pad>\n<unk>\ndog\ncow\ncafé\n", encoding="utf-8")
    arrays, description, _ = convert("words", glove, "", str(vocabulary))
    assert description.files["vocab.txt"] == "dog\ncafé\n".encode()
    np.testing.assert_array_equal(arrays["params/encoder/table"], [[3, 4], [0, -1]])
    vocabulary.write_text("cow\nox\n")
    with pytest.raises(UserError, match=r"glove.txt has no word of .*vocab.txt with a vector"):
        convert("words", glove, "", str(vocabulary))
