"""The files of a finished run."""

import io
import json

import PIL.Image
import pytest
import tiny_run
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.util import tensor_util
from tiny_run import TINY, TOTAL_STEPS

from xmodal.evals.reports.summary import select_curves
from xmodal.training import checkpoints


@pytest.fixture(scope="module")
def config(tiny_data_dir):
    return tiny_run.make_config(tiny_data_dir)


@pytest.fixture(scope="module")
def run(config, tmp_path_factory):
    """The folder of a run."""
    folder = tmp_path_factory.mktemp("run")
    tiny_run.train(config, folder)
    return folder


def test_a_run_leaves_its_config_checkpoints_and_results(run, config):
    saved = checkpoints.load_run(str(run))
    assert saved.optimizer.to_dict() == config.optimizer.to_dict()
    assert saved.model.text.encoder.vocab_size > 0  # Filled in from the dataset.
    assert checkpoints.steps(str(run))[-1] == TOTAL_STEPS
    assert (run / "test/metrics.json").exists()
    assert not (run / "failure.json").exists()
    events = read_events(run)
    assert list(events["train/loss"]) == list(range(5, TOTAL_STEPS + 1, 5))
    assert list(events[f"{TINY}/t2t/recall@10"]) == [0, 20, TOTAL_STEPS]


def read_events(folder):
    events = EventAccumulator(str(folder), size_guidance={"tensors": 0})
    events.Reload()
    return {
        tag: {e.step: tensor_util.make_ndarray(e.tensor_proto) for e in events.Tensors(tag)}
        for tag in events.Tags()["tensors"]
    }


def test_tensorboard_shows_queries_similarities_settings_and_the_report(run):
    events = read_events(run)
    for step in (0, 20, TOTAL_STEPS):
        for number in (1, 2, 3):
            width, height, encoded = events[f"{TINY}/t2t/queries/{number}"][step]
            picture = PIL.Image.open(io.BytesIO(encoded))
            assert picture.size == (int(width), int(height))
            assert len(picture.getcolors(1 << 24)) > 2
        for kind in ("positive", "other"):
            edges_and_counts = events[f"{TINY}/t2t/similarity/{kind}"][step]
            assert edges_and_counts[:, 2].sum() > 10
    config = str(events["config"][0])
    assert "learning_rate" in config
    assert "text/encoder" in str(events["parameters"][0])
    tested = read_events(run / "test")
    report = (run / "test" / TINY / "report.md").read_text()
    ((_, shown),) = tested[f"{TINY}/report"].items()
    assert shown.item().decode() == report


def test_tensorboard_and_metrics_json_have_the_same_tags_and_numbers(run):
    metrics = json.loads((run / "test/metrics.json").read_text())
    step = metrics.pop("step")
    scalars = {
        tag: float(found[step])
        for tag, found in read_events(run / "test").items()
        if found[step].ndim == 0 and found[step].dtype.kind == "f"
    }
    assert f"{TINY}/t2t/recall@10" in scalars
    assert scalars == pytest.approx(select_curves(metrics), rel=1e-6)


def test_a_run_ends_with_its_card(run):
    card = (run / "model_card.md").read_text()
    ((name, digits),) = json.loads((run / "records.json").read_text())["train"].items()
    assert f"- {name}: `{digits[:16]}`" in card
    assert "30 steps of 16 examples, 480 in all: 13 times the 37 examples" in card
    assert "Trained from scratch. Seed 0." in card
    compute = json.loads((run / "compute.json").read_text())
    assert f"{compute['devices']} x {compute['kind']}, " in card
    # The report of the evaluator, two levels deeper.
    report = (run / "test" / TINY / "report.md").read_text()
    assert f"##{report.splitlines()[0]}" in card
    assert report.splitlines()[-1] in card


def test_the_hashes_of_the_records_go_with_the_numbers(run):
    records = json.loads((run / "records.json").read_text())
    assert list(records) == ["train", "examples"]
    ((name, digits),) = records["train"].items()
    assert name == f"{TINY}/images/1.0.0 train"
    boards = json.loads((run / "test" / TINY / "boards.json").read_text())
    assert list(boards) == [TINY]
    for board in boards.values():
        evaluated = board["records"][f"{TINY}/images/1.0.0 test"]
        assert len(evaluated) == len(digits) == 64
        assert evaluated != digits
        assert board["trained_on"] == records["train"]
    report = (run / "test" / TINY / "report.md").read_text()
    assert f"Trained on: {name} `{digits[:16]}` (hash of the records)." in report
    assert f"Evaluated: {TINY}/images/1.0.0 test `{evaluated[:16]}`" in report
