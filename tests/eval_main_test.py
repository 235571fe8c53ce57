"""The evaluation binary on runs of a tiny text-only model."""

import dataclasses
import json
import os
import shutil
import signal

import numpy as np
import pytest
from ml_collections import ConfigDict

from tests.saved_run import BEST, TOTAL_STEPS, evaluate, evaluate_file, make_config, read
from xmodal import data, eval_main
from xmodal.core import mesh as mesh_lib
from xmodal.core.errors import UserError
from xmodal.core.progress import STOPPED
from xmodal.core.result_files import write_files
from xmodal.evals import evaluate_source, make_evaluator, read_options
from xmodal.evals.reports import store
from xmodal.evals.scores import arrays
from xmodal.train.evaluation import run_subjects
from xmodal.train.evaluation.suite import Request
from xmodal.train.folder import checkpoints, run_folder
from xmodal.train.resolve import build_run

SHAPES = "crisscrossed_shapes"


@pytest.mark.slow
def test_one_checkpoint_agrees_with_training(saved_run_dir, tmp_path, capsys):
    evaluate(run=str(saved_run_dir), split="validation", output=str(tmp_path))
    found, in_loop = read(tmp_path / "metrics.json"), read(saved_run_dir / "evaluated.json")["2"]
    assert found.pop("step") == 2  # the best
    assert found.pop(BEST) == found["shapes/t2t/recall@10"]
    del in_loop[BEST]
    assert {tag: found[tag] for tag in in_loop} == in_loop
    assert all(tag.endswith(("_low", "_high")) for tag in set(found) - set(in_loop))
    own = read(tmp_path / "shapes/metrics.json")
    assert own["shapes_own/t2t/recall@1"] == found["shapes/shapes_own/t2t/recall@1"]
    assert read(tmp_path / "words/boards.json")["shapes_own"]["similarity"] == "cosine"
    assert store.load_ranks(tmp_path / "shapes").results[0].name == "shapes_own"
    report = (tmp_path / "shapes/report.md").read_text()
    assert "| tiny_quick step 2 |" in report
    assert report in capsys.readouterr().out
    # Evaluating again replaces the first results.
    (first,) = tmp_path.glob("events.out.tfevents.*")
    evaluate(
        run=str(saved_run_dir), split="validation", output=str(tmp_path), evaluators=["shapes"]
    )
    (second,) = tmp_path.glob("events.out.tfevents.*")
    assert second != first


@pytest.mark.slow
def test_a_run_uses_its_own_vocabulary(saved_run_dir, few_shapes, tmp_path):
    """A run gives the same numbers when moved, and with a dataset of other words."""
    evaluate(run=str(saved_run_dir), split="validation", output=str(tmp_path / "before"))
    other = tmp_path / "tfds"
    shutil.copytree(few_shapes, other)
    for path in other.rglob("vocabulary-*.txt"):
        special, words = np.split(np.array(path.read_text().split("\n")), [5])
        path.write_text("\n".join([*special, *words[::-1]]))
    moved = tmp_path / "moved"
    shutil.copytree(saved_run_dir, moved)
    path = moved / "config.json"
    path.write_text(path.read_text().replace(few_shapes, str(other)))
    evaluate(run=str(moved), split="validation", output=str(tmp_path / "after"))
    assert read(tmp_path / "after/metrics.json") == read(tmp_path / "before/metrics.json")
    # No dataset at all.
    shutil.rmtree(other)
    config = run_folder.load_run(str(moved))
    texts = ["a red circle", "two blue squares"]
    (found,) = data.text_batches(config.data, texts, 2)
    (expected,) = data.text_batches(run_folder.load_run(str(saved_run_dir)).data, texts, 2)
    np.testing.assert_array_equal(found["text_ids"], expected["text_ids"])
    assert build_run(config, mesh_lib.make_mesh()).model.towers.keys() == {"text"}


def test_saved_embeddings_are_those_that_files_hold(saved_run_dir, tmp_path):
    path = tmp_path / "model.npz"
    given = {"run": str(saved_run_dir), "split": "validation", "output": str(tmp_path / "out")}
    evaluate(save_embeddings=str(path), evaluators=["shapes"], **given)
    assert sorted(each.name for each in (tmp_path / "out").glob("*/")) == ["shapes", "steps"]
    saved = arrays.load_embeddings(path)
    assert saved.similarity == "dot"
    assert saved.sides == {"text"}
    split = data.eval_split(run_folder.load_run(saved_run_dir).data.to_dict(), split="validation")
    np.testing.assert_array_equal(saved.caption_ids, split.caption_ids)
    assert saved.origin.model.endswith(" step 2")
    assert saved.origin.records == split.hashes
    (options,) = read_options({"shapes": {"type": "boards", "bootstrap_samples": 100}}).values()
    evaluator = make_evaluator("shapes", options, split, ["text"])
    metrics = evaluate_source(evaluator, saved, name="file").metrics
    assert metrics == read(tmp_path / "out/shapes/metrics.json")


@pytest.mark.slow
def test_results_of_another_run_are_kept_unless_told_otherwise(saved_run_dir, tmp_path):
    given = {"split": "validation", "output": str(tmp_path / "out"), "evaluators": ["words"]}
    evaluate(run=str(saved_run_dir), **given)
    other = tmp_path / "other"
    shutil.copytree(saved_run_dir, other)
    config = read(other / "config.json")
    longer = config | {"total_steps": 100, "log_every": 7}
    (other / "config.json").write_text(json.dumps(longer))
    evaluate(run=str(other), step="4", **given)  # the same model, trained on
    (other / "config.json").write_text(json.dumps(config | {"seed": 1}))
    with pytest.raises(UserError, match=r"differs from tiny_quick .*replace them with --overw"):
        evaluate(run=str(other), **given)
    assert read(tmp_path / "out/metrics.json")["step"] == 4
    evaluate(run=str(other), overwrite=True, **given)
    assert read(tmp_path / "out/metrics.json")["step"] == 2


@pytest.mark.slow
def test_another_checkpoint_leaves_the_final_results_alone(saved_run_dir, tmp_path):
    """A finished run prints RUN/test as its results, by which a search compares trials."""
    folder = tmp_path / "run"
    shutil.copytree(saved_run_dir, folder)
    given = {"run": str(folder), "evaluators": ["words"]}
    evaluate(**given)
    final = (folder / "test/metrics.json").read_text()
    assert json.loads(final)["step"] == 2
    for step, number in (("0", 0), ("latest", TOTAL_STEPS)):
        evaluate(step=step, **given)
        assert read(folder / f"step_{number}/test/metrics.json")["step"] == number
    assert (folder / "test/metrics.json").read_text() == final
    evaluate(step="best", **given)
    assert (folder / "test/metrics.json").read_text() == final
    assert not (folder / "step_2").exists()
    named = given | {"output": f"{folder}/../run/test/", "step": "0"}
    with pytest.raises(UserError, match=r"is for results of the best checkpoint, .*--overwrite"):
        evaluate(**named)
    assert (folder / "test/metrics.json").read_text() == final
    evaluate(overwrite=True, **named)
    assert read(folder / "test/metrics.json")["step"] == 0


@pytest.mark.slow
def test_one_evaluator_leaves_the_numbers_of_others(saved_run_dir, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(saved_run_dir, folder)
    metrics = folder / "validation/metrics.json"
    given = {"run": str(folder), "split": "validation"}
    evaluate(**given)
    whole = read(metrics)
    assert {tag.partition("/")[0] for tag in whole} >= {"step", "shapes", "words"}
    evaluate(**given, evaluators=["words"])
    assert read(metrics) == whole
    # Results of another step replace all of them.
    evaluate(**given, evaluators=["words"], step="0", output=str(folder / "validation"))
    assert {tag.partition("/")[0] for tag in read(metrics)} == {"step", "words"}


@pytest.mark.slow
def test_the_mean_of_the_scores_of_two_runs(saved_run_dir, tmp_path, capsys):
    """Against the mean of two score matrices on the same boards."""
    other = tmp_path / "other"
    shutil.copytree(saved_run_dir, other)
    shutil.copytree(saved_run_dir, tmp_path / "lr=0.1,bs=32")
    runs = [str(saved_run_dir), str(other)]
    # A folder that exists is one run, whatever its name.
    evaluate(run=str(tmp_path / "lr=0.1,bs=32"), split="validation", output=str(tmp_path / "one"))
    evaluate(run=",".join(runs), split="validation", output=str(tmp_path / "both"))
    # An ensemble of two copies equals the model.
    one, both = (read(tmp_path / name / "metrics.json") for name in ("one", "both"))
    one.pop("step")
    assert both.keys() == one.keys()
    for tag, value in one.items():
        np.testing.assert_allclose(both[tag], value, atol=1e-3, err_msg=tag)
    assert "Scores are means of those of tiny" in capsys.readouterr().out
    with pytest.raises(UserError, match="do not exist.*lr=0.1"):
        evaluate(run=f"{tmp_path}/lr=0.1,bs=64")


def test_a_signal_ends_an_evaluation_before_anything_is_written(
    saved_run_dir, tmp_path, monkeypatch
):
    open_run = run_subjects.open_run

    def interrupted(*args, **options):
        os.kill(os.getpid(), signal.SIGTERM)
        return open_run(*args, **options)

    monkeypatch.setattr(run_subjects, "open_run", interrupted)
    with pytest.raises(SystemExit) as ended:
        evaluate(run=str(saved_run_dir), split="validation", output=str(tmp_path / "out"))
    assert ended.value.code == STOPPED
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_annotations_are_for_boards_of_ms_coco(saved_run_dir, tmp_path):
    config = ConfigDict({"data": {"dataset": "coco_captions"}, "evals": {}})
    config.evals.own = {"type": "boards"}
    config.evals.other = {"type": "boards", "data": {"dataset": "flickr8k"}}
    config.evals.pools = {"type": "pools", "data": None}
    eval_main.add_annotations(config, "labels")
    assert {name: each.get("annotations") for name, each in config.evals.items()} == {
        "own": "labels",
        "other": None,
        "pools": None,
    }
    with pytest.raises(UserError, match="--annotations=labels .* no evaluator of config.evals"):
        evaluate(run=str(saved_run_dir), annotations="labels", output=str(tmp_path / "out"))


@pytest.mark.slow
def test_comparison_of_a_checkpoint(saved_run_dir, tmp_path, capsys):
    given = {"run": str(saved_run_dir), "split": "validation"}
    evaluate(output=str(tmp_path / "first"), **given)
    evaluate(output=str(tmp_path / "second"), compare=str(tmp_path / "first"), **given)
    text = (tmp_path / "second/shapes/comparison.md").read_text()
    both = f"tiny_quick step 2 against tiny_quick step 2 ({tmp_path / 'first/shapes'})"
    assert text.startswith(f"## {both}\n")
    assert text in capsys.readouterr().out
    for name in ("shapes", "words"):
        assert not any(read(tmp_path / "second" / name / "comparison.json").values())
    evaluate(output=str(tmp_path / "second"), **given)
    assert not list((tmp_path / "second").rglob("comparison*"))


@pytest.mark.slow
def test_examples_of_a_checkpoint_and_of_its_embeddings(
    saved_run_dir, few_shapes, tmp_path, capsys
):
    config = make_config(few_shapes)
    given = {"split": "validation", "examples": 2, "evaluators": ["shapes"]}
    saved, output = str(tmp_path / "e.npz"), tmp_path / "out"
    evaluate(run=str(saved_run_dir), save_embeddings=saved, output=str(output), **given)
    path = output / "shapes/examples.html"
    assert f"Examples: {path}\n" in capsys.readouterr().out
    text = path.read_text(encoding="utf-8")
    assert "Worst rank: text to text, shapes" in text
    assert "image to text" not in text  # there is no image tower
    assert text.count("data:image/png") >= 20
    request = Request("validation", examples=2)
    (of_file,) = evaluate_file(saved, config, request, names=["shapes"], name="tiny_quick step 2")
    assert of_file.page.to_html() == text
    request = dataclasses.replace(request, compare=str(output))
    (of_file,) = evaluate_file(saved, config, request, names=["shapes"])
    assert not any("Changed" in group.title for group in of_file.page.groups)  # the same model
    evaluate(run=str(saved_run_dir), output=str(output), **given | {"examples": 0})
    assert not path.exists()


def test_what_cannot_be_written_or_compared_is_refused_before_the_work(
    saved_run_dir, tmp_path, monkeypatch
):
    given = {"run": str(saved_run_dir), "split": "validation"}
    evaluate(output=str(tmp_path / "out"), **given)
    stored = store.load_ranks(tmp_path / "out/shapes")
    boards = [dataclasses.replace(board, label_hash="beef") for board in stored.results]
    ranks = store.pack_ranks(store.StoredResults(boards, "any"))
    write_files(tmp_path / "other", {"ranks.npz": ranks})
    write_files(tmp_path / "run/test/shapes", {"ranks.npz": ranks})
    monkeypatch.setattr(
        checkpoints, "restore_model", lambda *_: pytest.fail("evaluated for nothing")
    )
    for other in ("other", "run"):
        with pytest.raises(UserError, match="labels of board shapes_own differ: .* against beef"):
            evaluate(output=str(tmp_path / "new"), compare=str(tmp_path / other), **given)
    with pytest.raises(UserError, match=r"Cannot write to .*metrics\.json: "):
        evaluate(output=str(tmp_path / "out/metrics.json"), **given)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "out", "run"]


def test_undefined_numbers_of_other_evaluators_are_kept(saved_run_dir, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(saved_run_dir, folder)
    given = {"run": str(folder), "evaluators": ["words"]}
    stored = folder / "test/steps/2.json"
    stored.parent.mkdir(parents=True)
    stored.write_text(json.dumps({"gone/t2t/spearman": None, "gone/t2t/pairs": 7.0}))
    evaluate(save_embeddings=str(tmp_path / "words.npz"), **given)
    for numbers in (read(stored), read(folder / "test/metrics.json")):
        assert numbers["gone/t2t/spearman"] is None
        assert numbers["gone/t2t/pairs"] == 7
        assert numbers["words/shapes_own/t2t/recall@1"] is not None
    stored.write_text(stored.read_text()[:20])
    with pytest.raises(UserError, match=r"steps/2.json is damaged: .*evaluate this step again"):
        evaluate(**given)
