"""The evaluation binary on runs of a tiny text-only model."""

import os
import shutil
import signal

import numpy as np
import pytest

from tests.saved_run import BEST, evaluate, read
from xmodal import data
from xmodal.core import mesh as mesh_lib
from xmodal.core.errors import UserError
from xmodal.core.progress import STOPPED
from xmodal.evals import evaluate_source, make_evaluator, read_options
from xmodal.evals.reports.evaluation import load_ranks
from xmodal.evals.scores import files
from xmodal.train.evaluation import run_subjects
from xmodal.train.folder import run_folder
from xmodal.train.resolve import build_run


@pytest.mark.slow
def test_one_checkpoint_agrees_with_training(saved_run_dir, tmp_path, capsys):
    evaluate(run=str(saved_run_dir), split="validation", output=str(tmp_path))
    found, in_loop = read(tmp_path / "metrics.json"), read(saved_run_dir / "evaluated.json")["2"]
    assert found.pop("step") == 2  # the best
    assert found.pop(BEST) == found["shapes/t2t/recall@10"]
    del in_loop[BEST]
    assert {tag: found[tag] for tag in in_loop} == in_loop
    assert all(tag.endswith(("_low", "_high")) for tag in set(found) - set(in_loop))
    # The model reads captions only.
    tasks = {"t2t", "sts", "mean_recall@10"}
    assert {tag.split("/")[-2 if "t2t" in tag else 1] for tag in found} <= tasks | {"shapes_own"}
    own = read(tmp_path / "shapes/metrics.json")
    assert own["shapes_own/t2t/recall@1"] == found["shapes/shapes_own/t2t/recall@1"]
    assert read(tmp_path / "words/benchmarks.json")["shapes_own"]["similarity"] == "cosine"
    assert load_ranks(tmp_path / "shapes").results[0].name == "shapes_own"
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
    found, expected = (
        data.load_tokenizer(each.data).encode(texts)
        for each in (config, run_folder.load_run(str(saved_run_dir)))
    )
    np.testing.assert_array_equal(found, expected)
    assert build_run(config, mesh_lib.make_mesh()).model.towers.keys() == {"text"}


def test_saved_embeddings_are_those_that_files_hold(saved_run_dir, tmp_path):
    path = tmp_path / "model.npz"
    given = {"run": str(saved_run_dir), "split": "validation", "output": str(tmp_path / "out")}
    evaluate(save_embeddings=str(path), evaluators=["shapes"], **given)
    assert sorted(each.name for each in (tmp_path / "out").glob("*/")) == ["shapes", "steps"]
    saved = files.load_embeddings(path)
    assert saved.similarity == "dot"
    assert saved.modalities == {"text"}
    split = data.eval_split(run_folder.load_run(saved_run_dir).data.to_dict(), split="validation")
    np.testing.assert_array_equal(saved.caption_ids, split.caption_ids)
    (options,) = read_options({"shapes": {"type": "benchmarks", "bootstrap_samples": 100}}).values()
    evaluator = make_evaluator("shapes", options, split, ["text"])
    metrics = evaluate_source(evaluator, saved, name="file").metrics
    assert metrics == read(tmp_path / "out/shapes/metrics.json")


def test_own_judgments_of_the_dataset_of_a_run(saved_run_dir, tmp_path, capsys):
    split = data.eval_split(run_folder.load_run(saved_run_dir).data.to_dict(), split="validation")
    first, second, third = split.caption_ids[:3].tolist()
    rows = f"{first} 0 {second} 2\n{first} 0 {third} 1\n{second} 0 {first} 1\n"
    (tmp_path / "mine_t2t.qrels").write_text(rows)
    given = {"run": str(saved_run_dir), "split": "validation", "output": str(tmp_path / "out")}
    evaluate(annotations=str(tmp_path / "mine_t2t.qrels"), **given)
    found = read(tmp_path / "out/metrics.json")
    assert found["shapes/mine/t2t/queries"] == 2
    low, value, high = (found[f"shapes/mine/t2t/ndcg@10{end}"] for end in ("_low", "", "_high"))
    assert 0 <= low <= value <= high <= 100
    assert "shapes/shapes_own/t2t/recall@1" in found
    tables = (tmp_path / "out/shapes/report.tex").read_text(), capsys.readouterr().out
    assert all("nDCG@10" in table for table in tables)


@pytest.mark.slow
def test_the_mean_of_the_scores_of_two_runs(saved_run_dir, tmp_path, capsys):
    """Against the mean of two score matrices on the same benchmarks."""
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
    with pytest.raises(UserError, match="set --output"):
        evaluate(run=",".join(runs))


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


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"step": "3"}, r"has no checkpoint of step 3; it has \[0, 2, 4\]"),
        ({"split": "train2014"}, "train2014"),
        ({"run": "runs/none"}, "'runs/none' is not a run"),
    ],
)
def test_mistakes_are_named(saved_run_dir, tmp_path, values, message):
    with pytest.raises(ValueError, match=message):
        evaluate(**({"run": str(saved_run_dir), "output": str(tmp_path / "out")} | values))
    assert list(tmp_path.iterdir()) == []
