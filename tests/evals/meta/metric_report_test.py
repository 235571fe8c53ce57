"""The comparison of metrics from files to files."""

import json

import numpy as np
import pytest
from PIL import Image

from xmodal.evals import meta
from xmodal.evals.published import ECCV_TABLE_4
from xmodal.options import UserError

METRICS = ["eccv/mean/map@r", "coco5k/mean/recall@1", "pmrp/mean"]


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "table.json"
    path.write_text(json.dumps(ECCV_TABLE_4))
    return str(path)


def test_the_papers_models_give_its_matrix(tmp_path, table):
    text = meta.run([table], str(tmp_path / "out/meta"), METRICS)
    out = tmp_path / "out/meta"
    assert sorted(p.name for p in out.iterdir()) == [
        "agreement.json",
        "agreement.md",
        "bump_chart.png",
    ]
    assert (out / "agreement.md").read_text() == text
    matrix = (
        "|                          | (1) |  (2) |  (3) |\n"
        "| ------------------------ | --: | ---: | ---: |\n"
        "| (1) eccv/mean/map@r      |     | 0.39 | 0.20 |\n"
        "| (2) coco5k/mean/recall@1 |     |      | 0.45 |\n"
        "| (3) pmrp/mean            |     |      |      |\n"
    )
    assert text.count(matrix) == 2  # found and printed
    assert "rankings of 25 models" in text
    assert "| PCME CutMix         |   3 |  16 | 2.5 |" in text

    found = json.loads((out / "agreement.json").read_text())
    assert found["metrics"] == METRICS
    assert found["models"] == [[25] * 3] * 3
    assert np.diag(found["tau_b"]) == pytest.approx([1, 1, 1])
    assert found["ranks"]["pmrp/mean"]["PCME CutMix"] == 2.5
    with Image.open(out / "bump_chart.png") as picture:
        assert picture.format == "PNG"
        assert min(picture.size) > 400


def test_what_is_undefined_is_said_and_null(tmp_path):
    for name, metrics in {"a": {"x": 1, "y": 2}, "b": {"x": 1, "y": 3}, "c": {"y": 1}}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "metrics.json").write_text(json.dumps(metrics))
    text = meta.run([str(tmp_path / name) for name in "abc"], str(tmp_path / "out"))
    assert "rankings of 2 to 3 models" in text
    assert "- tau between x and y is undefined: x is the same for all 2 models" in text
    assert "| (1) x |     |   - |" in text
    assert "| (1) x |   2 |   2 |" in text
    assert "| c |   - |   3 |" in text
    assert "table 5" not in text  # none of its metrics
    found = json.loads((tmp_path / "out/agreement.json").read_text())
    assert found["tau_b"][0][1] is None


def test_nothing_is_written_where_something_is_wrong(tmp_path, table):
    out = tmp_path / "out"
    with pytest.raises(UserError, match="No model has"):
        meta.run([table], str(out), ["accuracy"])
    (tmp_path / "one").mkdir()
    (tmp_path / "one/metrics.json").write_text('{"x": 1, "y": 2}')
    with pytest.raises(UserError, match="has only 'one': give two or more"):
        meta.run([str(tmp_path / "one")], str(out))
    assert not out.exists()


def test_an_output_that_is_a_file_is_refused(table):
    with pytest.raises(UserError, match="Cannot write to .*table.json"):
        meta.run([table], table, METRICS)
    with open(table) as file:
        assert json.load(file) == ECCV_TABLE_4
