"""Learning word vectors from training captions with the command."""

import sys

import pytest
from absl import flags

from xmodal.apps import config_flag
from xmodal.apps.analysis import word2vec
from xmodal.pretrained.word_vectors import load_word_vectors


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
