"""The page of captions of a real run: word weights and pictures."""

import base64
import re
import sys

import numpy as np
import pytest

import xmodal
from configs import cmcm_clue
from xmodal import data
from xmodal.apps.explore import show
from xmodal.train import loop


@pytest.fixture(scope="module")
def run(tmp_path_factory, few_shapes):
    """CMCA after two steps."""
    config = cmcm_clue.get_config("quick,cmca")
    config.total_steps, config.batch_size, config.log_every = 2, 16, 1
    config.data.data_dir = few_shapes
    config.model.image.encoder = {"name": "convnet", "channels": (4, 8), "units": (0, 1)}
    config.evals = {"pools": config.evals.pools}
    config.evals.pools.every = 2
    folder = str(tmp_path_factory.mktemp("runs") / config.name)
    loop.train(config, folder)
    return folder


@pytest.mark.slow
def test_a_page_of_a_run_and_itself(run, few_shapes, tmp_path, monkeypatch):
    command = ["show", f"--model={run},{run}", "--count=3", f"--output={tmp_path}/page.html"]
    monkeypatch.setattr(sys, "argv", command)
    show.main()
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    sections = page.split("<article")[1:]
    assert len(sections) == 3
    config = cmcm_clue.get_config("quick").data.to_dict() | {"data_dir": few_shapes}
    split = data.eval_split(config, split="test")
    contents = split.pictures(np.arange(len(split.image_ids))).tolist()
    model = xmodal.load(run)
    images = model.embed_images(contents)
    far = 0
    for section in sections:
        (text,) = re.findall(r"<h2[^>]*>(.*?)</h2>", section)
        row = [text == each for each in split.caption_texts].index(True)
        # Weights and pictures appear both times.
        weights = [float(x) for x in re.findall(r'title="([\d.]+)"', section)]
        assert sum(weights) == pytest.approx(2, abs=0.04)
        item = r'<li class="item( marked)?">\n<img src="data:image/\w+;base64,([^"]+)"'
        shown = re.findall(item, section)
        scores = model.similarity(model.embed_texts([text]), images)[0]
        order = sorted(range(len(scores)), key=lambda place: -scores[place])
        own = split.caption_rows[row]
        best = order[:5]
        if own not in best:
            best.append(own)
            far += 1
            assert section.count(f"rank {order.index(own) + 1} of {len(order)}") == 2
        pictures = [base64.b64decode(picture) for _, picture in shown]
        assert pictures == [contents[i] for i in 2 * best]
        assert [bool(mark) for mark, _ in shown] == [i == own for i in 2 * best]
    assert far, "the rank of an own picture was never shown"
