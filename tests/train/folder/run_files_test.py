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
from xmodal.train.evaluation.run_subjects import read_curves
from xmodal.train.folder import run_folder

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
    metric = f"{TINY}/t2t/recall@10"
    for tag, points in read_curves(str(run), metric).items():
        assert dict(points) == pytest.approx({x: float(y) for x, y in events[tag].items()})
    page = (run / "test" / TINY / "report.html").read_text()
    assert "<figcaption>train/loss" in page


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
