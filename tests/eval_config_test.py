"""Published towers evaluated with one command: `python -m xmodal.eval_main --config=...`."""

import dataclasses
import json
import pathlib
import sys

import numpy as np
import pytest
from absl import flags
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.api.converted_models import MODELS, save_converted
from xmodal import data, eval_main
from xmodal.apps import config_flag, eval_arguments
from xmodal.evals import Embedder
from xmodal.evals.reports.store import StoredResults, load_ranks, pack_ranks
from xmodal.pretrained.converters import convert
from xmodal.pretrained.folder import save_tower

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


@pytest.mark.slow
def test_a_converted_probabilistic_model_is_ranked_by_its_means(command, few_shapes, tmp_path):
    """As `xmodal reproduce pcme/mean` does."""
    head = {"name": "gaussian", "width": 5, "samples": 3}
    section = MODELS["pixels"] | {"similarity": {"name": "match_probability"}}
    for side in ("image", "text"):
        section[side] = MODELS["pixels"][side] | {"head": head, "projection": None}
    given = (
        f"--config={CONFIG.parent / 'released.py'}", "--config.data.dataset=crisscrossed_shapes",
        f"--config.init_from.model={save_converted(tmp_path / 'model', section, most=0.1)}",
        f"--config.data.data_dir={few_shapes}", "--config.evals.coco.bootstrap_samples=10",
    )  # fmt: skip
    chosen = "--config.evals.coco.similarity={'name': 'cosine', 'field': 'mean'}"
    for name, arguments in {"samples": (), "means": (chosen,)}.items():
        assert not command(*given, *arguments, f"--output={tmp_path / name}")[0]
    numbers = [
        json.loads((tmp_path / name / "metrics.json").read_text()) for name in ("samples", "means")
    ]
    assert "Similarity: cosine." in (tmp_path / "means/coco/report.md").read_text()
    assert numbers[0].keys() == numbers[1].keys()
    assert numbers[0] != numbers[1]


@pytest.fixture(scope="module")
def tower(tmp_path_factory):
    """A converted file of word vectors."""
    root = tmp_path_factory.mktemp("words")
    vectors = np.random.default_rng(0).normal(size=(len(WORDS), 12)).round(3)
    lines = [
        f"{word} {' '.join(map(str, row))}\n" for word, row in zip(WORDS, vectors, strict=True)
    ]
    (root / "glove.txt").write_text("".join(lines))
    save_tower(root / "tower", *convert("words", root / "glove.txt"))
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
    names = {path.name for path in out.iterdir()}
    assert names >= {"coco", "metrics.csv", "metrics.json", "model.json", "projector_config.pbtxt"}
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
    assert json.loads((own / "boards.json").read_text())["shapes"]["similarity"] == "cosine"
    # The same again, compared with the stored results.
    again = [f"--output={tmp_path / 'again'}", f"--compare={own / 'ranks.npz'}"]
    code, said = command(*arguments, *again)
    assert not code
    assert json.loads((tmp_path / "again" / "metrics.json").read_text()) == metrics
    comparison = (tmp_path / "again/coco/comparison.md").read_text()
    assert comparison in said
    assert comparison.startswith(f"## bow against bow ({own})\n")


def test_what_cannot_be_written_or_compared_is_refused_before_the_work(
    command, arguments, tmp_path, monkeypatch
):
    out = tmp_path / "out"
    assert not command(*arguments)[0]
    monkeypatch.setattr(Embedder, "__call__", lambda *_: pytest.fail("evaluated for nothing"))
    ranks = load_ranks(out / "coco")
    boards = [dataclasses.replace(board, label_hash="beef") for board in ranks.results]
    (out / "coco/ranks.npz").write_bytes(pack_ranks(StoredResults(boards, "any")))
    again = [f"--output={tmp_path / 'again'}", f"--compare={out}"]
    code, _ = command(*arguments, *again)
    assert "against beef; evaluate both models with the same annotations" in code
    code, _ = command(*arguments, f"--output={out / 'metrics.json'}")
    assert "metrics.json: " in code
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (["--config.init_from.towers.text="], "config.init_from.towers.text is empty"),
        (
            ["--config.init_from.towers.texts=a"],
            "Unknown key(s) ['texts'] in config.init_from.towers",
        ),
        (["--compare=none.npz"], "none.npz"),
    ],
)
def test_mistakes_end_with_a_message(command, arguments, tmp_path, changed, message):
    code, _ = command(*arguments, *changed)
    assert message in str(code)
    assert not (tmp_path / "out").exists()


def on_rated_captions(few_shapes, out):
    return [
        "--config.data.dataset=crisscrossed_shapes",
        "--config.data.config=rated_captions",
        f"--config.data.data_dir={few_shapes}",
        f"--output={out}",
    ]


def test_sentence_embeddings_are_evaluated_like_the_tower_that_made_them(
    command, tower, few_shapes, tmp_path
):
    """By id, from `--save_embeddings`, and by text, with an unused sentence."""
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
    settings = {"dataset": "crisscrossed_shapes", "config": "rated_captions", "image": None}
    split = data.eval_split(settings | {"data_dir": few_shapes, "text": {}}, split="test")
    with np.load(saved) as arrays:
        np.testing.assert_array_equal(arrays["caption_ids"], split.caption_ids)
        texts, first = np.unique(split.caption_texts, return_index=True)
        sentences = {
            "sentences": np.array([*texts, "unused"]),
            "sentence_embeddings": arrays["caption_embeddings"][[*first, 0]],
        }
    by_text = tmp_path / "by_text.npz"
    np.savez(by_text, **sentences)
    for path in (saved, by_text):
        out = tmp_path / path.stem
        code, _ = command(
            f"--config={STS}", f"--embeddings={path}", "--similarity=cosine", "--name=mine",
            *arguments[:-1], f"--output={out}",
        )  # fmt: skip
        assert not code
        assert json.loads((out / "metrics.json").read_text()) == pytest.approx(expected, abs=1e-6)
        assert "| mine " in (out / "sts/report.md").read_text()
        assert json.loads((out / "model.json").read_text())["name"] == f"{path} (cosine)"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (["--annotations=a"], "Give either --annotations, "),
        (["--similarity="], "Name the similarity that the model ranks by"),
        ([], "no embedding for "),
    ],
)
def test_mistakes_with_embeddings_and_a_config(command, few_shapes, tmp_path, changed, message):
    path, out = tmp_path / "file.npz", tmp_path / "out"
    np.savez(path, sentences=np.array(["a dog"]), sentence_embeddings=np.ones((1, 3)))
    code, _ = command(
        f"--config={STS}", f"--embeddings={path}", "--similarity=cosine",
        *on_rated_captions(few_shapes, out), *changed,
    )  # fmt: skip
    assert message in str(code)
    assert not out.exists()
