"""Learning word vectors from training captions with the command."""

import sys

import pytest
from absl import flags

from xmodal.apps import config_flag
from xmodal.apps.analysis import word2vec
from xmodal.pretrained.word_vectors import load_word_vectors

SETTINGS = {
    "vector_size": 6, "window": 2, "min_count": 2, "epochs": 30, "negative": 3, "sg": 1,
    "seed": 1,
}  # fmt: skip
# Words in the same positions have similar vectors.
SENTENCES = [
    ["a", color, thing]
    for color in ("red", "blue")
    for thing in ("dog", "cat", "cow")
    for _ in range(40)
] + [["once"]]


def test_the_same_seed_gives_the_same_vectors(tmp_path):
    pytest.importorskip("gensim")
    text = word2vec.learn_vectors(SENTENCES, **SETTINGS)
    assert word2vec.learn_vectors(SENTENCES, **SETTINGS) == text
    assert word2vec.learn_vectors(SENTENCES, **SETTINGS | {"seed": 2}) != text
    path = tmp_path / "vectors.txt"
    path.write_text(text)
    table = load_word_vectors(path)
    assert sorted(table.rows) == ["a", "blue", "cat", "cow", "dog", "red"]
    assert table.vectors.shape == (6, 6)


def test_the_command_writes_the_words_of_the_captions(own_flags, few_shapes, tmp_path, monkeypatch):
    pytest.importorskip("gensim")
    output = tmp_path / "vectors.txt"
    data = f"--config.data.data_dir={few_shapes}"
    small = ("--width=8", "--epochs=2", f"--output={output}")
    monkeypatch.setattr(sys, "argv", ["word2vec", "--config=configs/quickstart.py", data, *small])
    flags.FLAGS.unparse_flags()
    with pytest.raises(SystemExit) as raised:
        config_flag.run(word2vec.main)
    assert not raised.value.code
    table = load_word_vectors(output)
    assert table.vectors.shape[1] == 8
    assert {"circle", "red", "the"} & set(table.rows)
