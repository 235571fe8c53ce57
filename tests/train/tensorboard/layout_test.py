"""Descriptions, the page of main metrics and the order of groups, as TensorBoard's plugins read."""

import json
import pathlib
import re

from tensorboard.backend.event_processing.data_provider import MultiplexerDataProvider
from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
from tensorboard.context import RequestContext
from tensorboard.plugins.base_plugin import TBContext
from tensorboard.plugins.custom_scalar.custom_scalars_plugin import CustomScalarsPlugin
from tensorboard.plugins.scalar import metadata

from xmodal.evals.reports.metrics import MEAN_SELECTED
from xmodal.train.event_writer import EventWriter, describe

TAGS = ("coco/i2t/recall@1", "coco/t2i/recall@1", "coco/mean_recall@10", "train/loss")


def read(folder):
    multiplexer = EventMultiplexer().AddRunsFromDirectory(str(folder)).Reload()
    provider = MultiplexerDataProvider(multiplexer, str(folder))
    plugin = CustomScalarsPlugin(
        TBContext(data_provider=provider, multiplexer=multiplexer, logdir=str(folder))
    )
    found = provider.list_scalars(
        RequestContext(), experiment_id="", plugin_name=metadata.PLUGIN_NAME
    )
    return plugin, found["."]


def test_the_main_metrics_have_a_page_and_every_scalar_a_description(tmp_path):
    writer = EventWriter(tmp_path)
    writer.write_layout("coco/mean_recall@10", ("i2t", "t2i"))
    for step in (0, 5):
        writer.write_scalars(step, dict.fromkeys(TAGS, step / 7))
    writer.close()
    plugin, series = read(tmp_path)
    assert {tag: each.description for tag, each in series.items()} == {
        tag: describe(tag) for tag in TAGS
    }
    assert "first K items" in series[TAGS[0]].description
    (category,) = json.loads(plugin.layout_impl(RequestContext(), ""))["category"]
    titles = ["loss", "coco/mean_recall@10", "R@1 i2t", "R@1 t2i", "learning rate"]
    assert [chart["title"] for chart in category["chart"]] == titles
    shown = []
    for chart in category["chart"]:
        (pattern,) = chart["multiline"]["tag"]
        shown.append([tag for tag in TAGS if re.match(pattern, tag)])
    assert shown == [["train/loss"], ["coco/mean_recall@10"], [TAGS[0]], [TAGS[1]], []]


def test_what_training_reports_is_described():
    root = pathlib.Path(__file__).parents[3] / "xmodal/train"
    speed = re.findall(r'"(train_perf/\w+)"', (root / "reporting.py").read_text())
    steps = re.findall(r'scalars\["(\w+)"\] =', (root / "step/step.py").read_text())
    names = {*speed, *(f"train/{name}" for name in steps), "train/loss", "train/i2t/loss"}
    names |= {f"coco/{metric}" for metric in (*MEAN_SELECTED, "rsum", "i2t/median_rank")}
    assert len(names) > 9
    assert [name for name in names if not describe(name)] == []
    assert describe("train/i2t/kl") == ""
