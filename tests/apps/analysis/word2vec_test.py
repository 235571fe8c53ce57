"""Learning word vectors from training captions with the command."""

import csv
import json
import sys

import numpy as np
import pytest
from absl import flags

import xmodal
from xmodal.apps import config_flag
from xmodal.apps.analysis import word2vec
from xmodal.data.text.words import split_words
from xmodal.pretrained.word_vectors import load_word_vectors


@pytest.fixture
def run(own_flags, few_shapes, monkeypatch):
    """Runs the command on the built-in dataset."""
    pytest.importorskip("gensim")

    def run(config, *arguments):
        data = f"--config.data.data_dir={few_shapes}"
        monkeypatch.setattr(sys, "argv", ["word2vec", f"--config={config}", data, *arguments])
        flags.FLAGS.unparse_flags()
        with pytest.raises(SystemExit) as raised:
            config_flag.run(word2vec.main)
        assert not raised.value.code

    return run


def test_the_command_writes_the_words_of_the_captions(run, tmp_path):
    output = tmp_path / "vectors.txt"
    run("configs/quickstart.py", "--width=8", "--epochs=2", f"--output={output}")
    table = load_word_vectors(output)
    assert table.vectors.shape[1] == 8
    assert {"circle", "red", "the"} & set(table.rows)


def test_a_search_reports_the_trial_with_the_best_sentence_pairs(run, few_shapes, tmp_path):
    """The best trial's vectors, evaluated by hand, have its metrics."""
    pytest.importorskip("optuna")
    section = f"--config.evals.sts.data.data_dir={few_shapes}"
    metric = "sts/c2c_isim/pearson"
    given = (section, f"--config.best_checkpoint.metric={metric}", "--width=8", "--epochs=1")
    run("configs/vete.py:quick", *given, "--trials=2", f"--output={tmp_path}")
    rows = list(csv.DictReader((tmp_path / "results.csv").open()))
    assert [row["state"] for row in rows] == ["complete", "complete"]
    assert {"word2vec.window", "word2vec.min_count", "word2vec.skip_gram"} < set(rows[0])
    assert "word2vec.epochs" not in rows[0]  # The command line sets it.
    best = max(rows, key=lambda row: float(row["score"]))
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert metrics[metric] == float(best["score"]) == float(best[metric])
    words = load_word_vectors(tmp_path / "trials" / best["trial"] / "checkpoints/words.txt")

    def embed_texts(texts):
        known = [[words.rows.get(word) for word in split_words(text.lower())] for text in texts]
        return np.stack([words.vectors[[r for r in row if r is not None]].mean(0) for row in known])

    found = xmodal.evaluate(
        embed_texts=embed_texts, dataset="crisscrossed_shapes", config="rated_captions",
        split="validation", data_dir=few_shapes, similarity="cosine",
    )  # fmt: skip
    assert found.metrics[metric.removeprefix("sts/")] == pytest.approx(metrics[metric], abs=1e-5)
    left = [tmp_path / "trials" / row["trial"] / "checkpoints" for row in rows if row is not best]
    assert not any(each.exists() for each in left)
