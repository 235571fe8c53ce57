"""The files of a finished run."""

import io
import json
import shutil

import PIL.Image
import pytest
from tensorboard.backend.event_processing.data_provider import MultiplexerDataProvider
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
from tensorboard.context import RequestContext
from tensorboard.plugins.base_plugin import TBContext
from tensorboard.plugins.hparams import api_pb2, backend_context, list_session_groups, metadata
from tensorboard.util import tensor_util

from tests.tiny_run import TINY, TOTAL_STEPS
from xmodal.evals.reports.summary import select_curves
from xmodal.train.folder import run_folder
from xmodal.train.folder.compute import Compute
from xmodal.train.model_card import write_card
from xmodal.train.resolve import resolve

SETTINGS = metadata.SESSION_START_INFO_TAG


@pytest.fixture(scope="module")
def run(whole):
    """The folder of a run."""
    return whole[0]


@pytest.mark.slow
def test_a_run_leaves_its_config_checkpoints_and_results(run, config):
    saved = run_folder.load_run(str(run))
    assert saved.optimizer.to_dict() == config.optimizer.to_dict()
    assert saved.model.text.encoder.vocab_size > 0  # Filled in from the dataset.
    assert run_folder.steps(str(run))[-1] == TOTAL_STEPS
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


@pytest.mark.slow
def test_tensorboard_shows_queries_similarities_settings_and_the_report(run):
    events = read_events(run)
    for step in (0, 20, TOTAL_STEPS):
        for number in (1, 2, 3):
            width, height, encoded = events[f"{TINY}/t2t/queries/{number}"][step]
            picture = PIL.Image.open(io.BytesIO(encoded))
            assert picture.size == (int(width), int(height))
            assert (picture.format, len(encoded) < 60_000) == ("JPEG", True)
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
        if tag != SETTINGS and found[step].ndim == 0 and found[step].dtype.kind == "f"
    }
    assert f"{TINY}/t2t/recall@10" in scalars
    assert scalars == pytest.approx(select_curves(metrics), rel=1e-6)
    # Intervals are in the report: each would be a card with one dot.
    assert f"{TINY}/t2t/recall@10_low" in metrics
    assert not any(tag.endswith(("_low", "_high")) for tag in scalars)


def rows_of_hparams(folder):
    """Name -> settings and metrics of every row that TensorBoard's tab HPARAMS shows."""
    multiplexer = EventMultiplexer().AddRunsFromDirectory(str(folder)).Reload()
    provider = MultiplexerDataProvider(multiplexer, str(folder))
    context = backend_context.Context(TBContext(data_provider=provider))
    request = api_pb2.ListSessionGroupsRequest(
        allowed_statuses=[api_pb2.STATUS_UNKNOWN], start_index=0, slice_size=100
    )
    found = list_session_groups.Handler(RequestContext(), context, "", request).run()
    return {
        group.name: (group.hparams, {each.name.tag: each.value for each in group.metric_values})
        for group in found.session_groups
    }


def test_tensorboard_has_a_row_of_settings_and_final_metrics_for_every_run(run, tmp_path):
    for name in "ab":
        shutil.copytree(run / "test", tmp_path / name / "test")
        for events in run.glob("events*"):
            shutil.copy(events, tmp_path / name)
    metrics = json.loads((run / "test/metrics.json").read_text())
    del metrics["step"]
    for folder, names in ((tmp_path / "a", ["test"]), (tmp_path, ["a/test", "b/test"])):
        rows = rows_of_hparams(folder)
        assert sorted(rows) == names
        for settings, shown in rows.values():
            assert settings["optimizer.learning_rate"].number_value == 0.01
            assert settings["data.dataset"].string_value == TINY
            assert shown == pytest.approx(select_curves(metrics), rel=1e-6)


def test_a_run_ends_with_its_card(run):
    card = (run / "model_card.md").read_text()
    ((name, digits),) = json.loads((run / "records.json").read_text())["train"].items()
    assert f"- {name}: `{digits[:16]}`" in card
    assert "30 steps, 480 examples in all: 13 times the 37 examples" in card
    assert "Trained from scratch. Seed 0." in card
    (start,) = json.loads((run / "compute.json").read_text())
    assert (start["step"], start["batch_size"]) == (0, 16)
    assert f"{start['devices']} x {start['kind']}, " in card
    # The report of the evaluator, two levels deeper.
    report = (run / "test" / TINY / "report.md").read_text()
    assert f"##{report.splitlines()[0]}" in card
    assert report.splitlines()[-1] in card


def test_the_card_of_a_run_that_moved_to_other_devices(run, config, tmp_path):
    """Started on 4 devices, killed after step 20, and continued on 8 with another batch size."""

    def card_after(*starts):
        for step, batch_size, devices, kind, flops in starts:
            Compute(step, batch_size, devices, kind, flops).save(str(tmp_path))
        write_card(str(tmp_path), parts, [])
        text = (tmp_path / "model_card.md").read_text()
        return text.partition("## Training")[2].partition("## Use")[0]

    parts = resolve(config, str(run))
    # Nothing changed at step 10; the second start at step 20 replaces that of step 25.
    card = card_after((0, 16, 4, "v3", 2e9), (10, 16, 4, "v3", 2e9), (25, 16, 2, "v4", 9e9),
                      (20, 8, 8, "v4", 1e9), (TOTAL_STEPS, 16, 1, "cpu", 1e9))  # fmt: skip
    examples = 20 * 16 + 10 * 8
    assert f"30 steps, {examples} examples in all: {examples / 37:.3g} times" in card
    assert "- Steps 1 to 20: batch 16, 4 x v3, 2 GFLOP per step and device.\n" in card
    assert "- Steps 21 to 30: batch 8, 8 x v4, 1 GFLOP per step and device.\n" in card
    assert f"\n{(20 * 4 * 2e9 + 10 * 8 * 1e9) / 1e12:.3g} TFLOP in all" in card
    assert "cpu" not in card


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
