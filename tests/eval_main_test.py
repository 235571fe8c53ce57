"""The evaluation binary: its flags, and runs, here of a tiny text-only model."""

import dataclasses
import json
import pathlib
import shutil

import numpy as np
import pytest
from absl import flags
from absl.testing import flagsaver

import data_prep
from configs import common
from xmodal import eval_main
from xmodal.config import UserError
from xmodal.evals.reports import store
from xmodal.evals.reports.files import write_files
from xmodal.training import checkpoints, evaluation, following, loop, preflight

TINY = "tiny_captions"
BEST = f"{TINY}/mean_recall@10"
TOTAL_STEPS = 4


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    config = common.quick(common.experiment("tiny"))
    config.total_steps, config.batch_size = TOTAL_STEPS, 8
    config.checkpoint.best_metric = BEST
    config.model.image = config.data.image = config.l2 = None
    config.freeze = []
    config.tasks = {"t2t": common.text_text()}
    config.data.dataset, config.data.data_dir = TINY, str(tmp_path_factory.mktemp("tfds"))
    config.data.captions_per_image, config.data.text.vocabulary_size = 2, 200
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(pathlib.Path(__file__).parent / "data")
        patch.setitem(data_prep.BUILDERS, TINY, f"{TINY}_dataset_builder:Builder")
        yield config


@pytest.fixture(scope="module")
def run_dir(config, tmp_path_factory):
    """A run with checkpoints of steps 0, 2 and 4; no training, so all hold the same model."""
    folder = str(tmp_path_factory.mktemp("run"))
    parts = preflight.assemble(config)
    state = loop.starting_state(parts, folder)
    checkpoints.save_config(folder, parts.config)
    saver = checkpoints.Checkpoints(folder, parts.config.checkpoint)
    held_out = evaluation.RunEvaluator(parts).run_state(state)
    for step, score in [(0, 30.0), (2, 50.0), (4, 40.0)]:
        metrics = held_out | {BEST: score}
        saver.save(dataclasses.replace(state, step=np.int32(step)), metrics)
    saver.close()
    return pathlib.Path(folder)


@pytest.fixture(autouse=True)
def _flags():
    flags.FLAGS.mark_as_parsed()
    with flagsaver.flagsaver():
        yield


def evaluate(**values):
    with flagsaver.flagsaver(**values):
        eval_main.main(["eval_main"])


def read(path):
    return json.loads(path.read_text())


def test_one_checkpoint_agrees_with_the_training_loop(run_dir, tmp_path, capsys):
    evaluate(run=str(run_dir), split="validation", output=str(tmp_path))
    found, in_loop = (
        read(tmp_path / "metrics.json"),
        read(run_dir / "checkpoints/2/metrics/metrics"),
    )
    assert found.pop("step") == 2  # the best
    assert found.pop(BEST) == found[f"{TINY}/t2t/recall@10"]
    del in_loop[BEST]
    assert {tag: found[tag] for tag in in_loop} == in_loop
    assert all(tag.endswith(("_low", "_high")) for tag in set(found) - set(in_loop))
    assert store.load_ranks(tmp_path / "ranks.npz").results[0].name == TINY
    # The model reads captions only.
    assert {tag.split("/")[1] for tag in found} == {"t2t"}
    report = (tmp_path / "report.md").read_text()
    assert "| tiny_quick step 2 |" in report
    assert report in capsys.readouterr().out
    assert list(tmp_path.glob("events.out.tfevents.*"))


def test_comparison_of_a_checkpoint(run_dir, tmp_path, capsys):
    given = {"run": str(run_dir), "split": "validation"}
    evaluate(output=str(tmp_path / "first"), **given)
    evaluate(output=str(tmp_path / "second"), compare=str(tmp_path / "first"), **given)
    text = (tmp_path / "second/comparison.md").read_text()
    assert text.startswith(f"## tiny_quick step 2 against {tmp_path / 'first'}\n")
    assert text in capsys.readouterr().out
    assert not any(read(tmp_path / "second/comparison.json").values())
    evaluate(output=str(tmp_path / "second"), **given)
    assert not list((tmp_path / "second").glob("comparison*"))


def test_what_cannot_be_written_or_compared_is_refused_before_the_work(
    run_dir, tmp_path, monkeypatch
):
    given = {"run": str(run_dir), "split": "validation"}
    evaluate(output=str(tmp_path / "out"), **given)
    stored = store.load_ranks(tmp_path / "out")
    boards = [dataclasses.replace(board, label_hash="beef") for board in stored.results]
    ranks = store.pack_ranks(boards, similarity="dot", seed=0)
    write_files(tmp_path / "other", {"ranks.npz": ranks})
    monkeypatch.setattr(
        checkpoints, "restore_model", lambda *_: pytest.fail("evaluated for nothing")
    )
    with pytest.raises(UserError, match=f"labels of board {TINY} differ: .* against beef"):
        evaluate(output=str(tmp_path / "new"), compare=str(tmp_path / "other"), **given)
    with pytest.raises(UserError, match=r"Cannot write to .*report\.md: it is a file"):
        evaluate(output=str(tmp_path / "out/report.md"), **given)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "out"]


def test_follow_evaluates_what_is_new_and_ends_with_the_run(run_dir, tmp_path, monkeypatch):
    """The last checkpoint appears while the follower waits; one was evaluated before."""
    growing, output = tmp_path / "run", tmp_path / "out"
    last = f"checkpoints/{TOTAL_STEPS}"
    shutil.copytree(run_dir, growing, ignore=shutil.ignore_patterns(str(TOTAL_STEPS), "test"))
    (output / "steps").mkdir(parents=True)
    (output / "steps/0.json").write_text("{}")
    waited = []

    def sleep(seconds):
        waited.append(seconds)
        shutil.copytree(run_dir / last, growing / last)

    monkeypatch.setattr(following.time, "sleep", sleep)
    evaluate(run=str(growing), follow=True, output=str(output))
    assert len(waited) == 1
    assert sorted(p.name for p in (output / "steps").iterdir()) == ["0.json", "2.json", "4.json"]
    assert read(output / "steps/0.json") == {}  # not evaluated again
    assert read(output / "metrics.json")["step"] == TOTAL_STEPS


def test_follow_gives_up_after_the_timeout(run_dir, tmp_path):
    stuck = tmp_path / "run"
    shutil.copytree(run_dir, stuck, ignore=shutil.ignore_patterns(str(TOTAL_STEPS)))
    steps = following.follow(str(stuck), str(tmp_path), last_step=TOTAL_STEPS, timeout=0.01)
    assert list(steps) == [0, 2]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"step": "3"}, r"has no checkpoint of step 3; it has \[0, 2, 4\]"),
        ({"step": "first"}, r"'first' of .*: give one of \[0, 2, 4\], latest or best"),
        ({"split": "train2014"}, "train2014"),
        ({"run": "runs/none"}, "'runs/none' is no run"),
    ],
)
def test_mistakes_are_named(run_dir, tmp_path, values, message):
    with pytest.raises(ValueError, match=message):
        evaluate(**({"run": str(run_dir), "output": str(tmp_path / "out")} | values))
    assert list(tmp_path.iterdir()) == []


FILES = {"annotations": "labels", "output": "out"}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "Give one of --run, --config, --embeddings, .*, --models; given: none"),
        ({"run": "r", "scores": "s.npy"}, "; given: --run and --scores"),
        ({"run": "r", "similarity": "dot"}, "--similarity cannot be given with --run"),
        ({"run": "r", "partial": True, "ids": "i"}, "--ids, --partial cannot be given with --run"),
        ({"embeddings": "e", "step": "5"} | FILES, "--step cannot be given with --embeddings"),
        ({"embeddings": "e", "ids": "i"} | FILES, "--ids cannot be given with --embeddings"),
        ({"scores": "s", "similarity": "dot"} | FILES, "--similarity cannot be .* --scores"),
        ({"rankings": "r", "partial": True} | FILES, "--partial cannot be given with --rankings"),
        ({"models": ["a"], "output": "o", "seed": 1}, "--seed cannot be given with --models"),
        ({"embeddings": "e", "output": "o"}, "--embeddings needs --annotations: Folder of the"),
        ({"rankings": "r", "annotations": "a"}, "--rankings needs --output: Folder for"),
        ({"models": ["a", "b"]}, "--models needs --output"),
    ],
)
def test_flags_that_do_not_go_together(values, message):
    with pytest.raises(UserError, match=message):
        evaluate(**values)
