"""Published towers evaluated with one command: `python -m xmodal.eval_main --config=...`."""

import json
import pathlib
import sys

import numpy as np
import pytest
from absl import flags
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import xmodal
from tests.pretrained import tiny_saved_models
from xmodal import eval_main
from xmodal.apps import config_flag, eval_arguments
from xmodal.pretrained.converters import convert
from xmodal.pretrained.folder import save_folder

STS = pathlib.Path(__file__).parents[1] / "configs" / "sts.py"
CONFIG = pathlib.Path(__file__).parents[1] / "configs" / "baselines.py"
# Of the captions of crisscrossed_shapes.
WORDS = ("a", "red", "green", "blue", "circle", "square", "triangle", "left", "right", "the")


@pytest.fixture
def command(monkeypatch, capsys):
    """Runs `python -m xmodal.eval_main ARGUMENTS...`; returns its exit code and output."""

    def forget_overrides():
        # A config flag stores its overrides as separate flags, including those of other tests.
        for name in [name for name in flags.FLAGS if name.startswith("config.")]:
            delattr(flags.FLAGS, name)

    def run(*arguments):
        forget_overrides()
        monkeypatch.setattr(sys, "argv", ["xmodal.eval_main", *arguments])
        with pytest.raises(SystemExit) as ended:
            config_flag.run(eval_main.main, lambda words: eval_arguments.parse(words, None))
        forget_overrides()
        return ended.value.code, capsys.readouterr().out

    yield run
    flags.FLAGS.unparse_flags()


@pytest.fixture(scope="module")
def tower(tmp_path_factory):
    """A converted file of word vectors."""
    root = tmp_path_factory.mktemp("words")
    vectors = np.random.default_rng(0).normal(size=(len(WORDS), 12)).round(3)
    lines = [
        f"{word} {' '.join(map(str, row))}\n" for word, row in zip(WORDS, vectors, strict=True)
    ]
    (root / "glove.txt").write_text("".join(lines))
    save_folder(root / "tower", *convert("words", root / "glove.txt"))
    return str(root / "tower")


@pytest.fixture
def arguments(tower, few_shapes, tmp_path):
    return [
        f"--config={CONFIG}:bow",
        f"--config.init_from.towers.text={tower}",
        "--config.data.dataset=crisscrossed_shapes",
        "--config.data.config=images",
        f"--config.data.data_dir={few_shapes}",
        "--config.evals.coco.bootstrap_samples=50",
        f"--output={tmp_path / 'out'}",
    ]


def test_one_command_from_weights_to_tables(command, arguments, tower, tmp_path):
    out = tmp_path / "out"
    code, said = command(*arguments)
    assert not code
    own = out / "coco"
    names = ["benchmarks.json", "examples.html", "metrics.csv", "metrics.json"]
    names += ["queries.json", "ranks.npz", "report.html", "report.md", "report.tex"]
    assert sorted(path.name for path in own.iterdir()) == names
    assert {"coco", "metrics.csv"} <= {path.name for path in out.iterdir()}
    (events,) = out.glob("events.out.tfevents.*")
    shown = EventAccumulator(str(events)).Reload().Tags()["tensors"]
    assert {"coco/t2t/queries/1", "coco/t2t/similarity/positive", "coco/report"} <= set(shown)
    assert "coco/shapes/t2t/recall@10" in shown
    report = (own / "report.md").read_text()
    assert report in said
    assert f"Text tower: {tower}, as it is." in report
    metrics = json.loads((out / "metrics.json").read_text())
    # Even random word vectors distinguish shapes and colors; chance is 10 of 124.
    assert metrics["coco/shapes/t2t/recall@10"] > 20
    assert "coco/shapes/sts/spearman" in metrics
    assert json.loads((own / "benchmarks.json").read_text())["shapes"]["similarity"] == "cosine"
    # The same again, compared with the stored results.
    again = [f"--output={tmp_path / 'again'}", f"--compare={own / 'ranks.npz'}", "--examples=0"]
    code, said = command(*arguments, *again)
    assert not code
    assert json.loads((tmp_path / "again" / "metrics.json").read_text()) == metrics
    assert not (tmp_path / "again/coco/examples.html").exists()
    comparison = (tmp_path / "again/coco/comparison.md").read_text()
    assert comparison in said
    assert comparison.startswith(f"## bow against bow ({own})\n")


def on_rated_captions(few_shapes, out):
    return [
        "--config.data.dataset=crisscrossed_shapes",
        "--config.data.config=rated_captions",
        f"--config.data.data_dir={few_shapes}",
        f"--output={out}",
    ]


def test_saved_embeddings_are_evaluated_like_the_tower_that_made_them(
    command, tower, few_shapes, tmp_path
):
    out = tmp_path / "tower"
    arguments = on_rated_captions(few_shapes, out)
    saved = tmp_path / "saved.npz"
    code, said = command(
        f"--config={STS}:bow", f"--config.init_from.towers.text={tower}",
        f"--save_embeddings={saved}", *arguments,
    )  # fmt: skip
    assert not code, said
    expected = json.loads((out / "metrics.json").read_text())
    assert expected["sts/c2c_isim/pearson_low"] < expected["sts/c2c_isim/pearson"]
    out = tmp_path / "file"
    code, _ = command(
        f"--config={STS}", f"--embeddings={saved}", "--similarity=cosine", "--name=mine",
        *arguments[:-1], f"--output={out}",
    )  # fmt: skip
    assert not code
    assert json.loads((out / "metrics.json").read_text()) == pytest.approx(expected, abs=1e-6)
    assert "| mine " in (out / "sts/report.md").read_text()


def test_a_saved_model_is_evaluated_like_its_embeddings(command, few_shapes, tmp_path):
    tiny_saved_models.save_callable(str(tmp_path / "model"))
    source = f"savedmodel:{tmp_path / 'model'}"
    out, saved = tmp_path / "model_out", tmp_path / "saved.npz"
    code, said = command(
        "towers", f"--config={CONFIG}:use", f"--text={source}", f"--save_embeddings={saved}",
        "--config.data.dataset=crisscrossed_shapes", "--config.data.config=images",
        f"--config.data.data_dir={few_shapes}", "--config.evals.coco.bootstrap_samples=50",
        f"--output={out}",
    )  # fmt: skip
    assert not code, said
    assert f"Text encoder: {source}, as it is." in said
    metrics = json.loads((out / "metrics.json").read_text())
    assert {"coco/shapes/t2t/recall@1", "coco/shapes/sts/spearman"} <= metrics.keys()
    assert json.loads((out / "coco/benchmarks.json").read_text())["shapes"]["similarity"] == "dot"
    given = {"dataset": "crisscrossed_shapes", "data_dir": few_shapes, "bootstrap_samples": 50}
    for same in ({"embeddings": saved}, {"embed_texts": tiny_saved_models.embed}):
        found = xmodal.evaluate(**given, **same, similarity="dot")
        expected = {f"coco/{tag}": value for tag, value in found.tagged.items()}
        assert metrics == pytest.approx(expected, abs=1e-4)


def test_a_saved_model_is_evaluated_on_sentence_pairs(command, few_shapes, tmp_path):
    tiny_saved_models.save_signature(str(tmp_path / "model"))
    out = tmp_path / "out"
    arguments = on_rated_captions(few_shapes, out)
    source = f"savedmodel:{tmp_path / 'model'}"
    code, said = command(f"--config={STS}:use", f"--text={source}", *arguments)
    assert not code, said
    metrics = json.loads((out / "metrics.json").read_text())
    given = {"dataset": "crisscrossed_shapes", "config": "rated_captions", "data_dir": few_shapes}
    found = xmodal.evaluate(embed_texts=source, similarity="dot", **given)
    assert metrics == {f"sts/{tag}": value for tag, value in found.tagged.items()}
