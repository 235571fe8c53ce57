"""The command that compares metrics, from input files to output files."""

import json

import numpy as np
import pytest
from PIL import Image

from xmodal.apps.analysis.agree import compare
from xmodal.core.errors import UserError
from xmodal.evals.reports.published import eccv_table_4

METRICS = ["eccv/mean/map@r", "coco5k/mean/recall@1", "pmrp/mean"]


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "table.json"
    path.write_text(json.dumps(eccv_table_4()))
    return str(path)


def test_the_papers_models_give_its_matrix(tmp_path, table):
    text = compare([table], str(tmp_path / "out/meta"), METRICS)
    out = tmp_path / "out/meta"
    assert sorted(p.name for p in out.iterdir()) == [
        "agreement.json",
        "agreement.md",
        "agreement.tex",
        "bump_chart.png",
    ]
    assert (out / "agreement.md").read_text() == text
    assert r"(1) eccv/mean/map@r &  & 0.39 & 0.20 \\" in (out / "agreement.tex").read_text()
    matrix = (
        "|                          | (1) |  (2) |  (3) |\n"
        "| ------------------------ | --: | ---: | ---: |\n"
        "| (1) eccv/mean/map@r      |     | 0.39 | 0.20 |\n"
        "| (2) coco5k/mean/recall@1 |     |      | 0.45 |\n"
        "| (3) pmrp/mean            |     |      |      |\n"
    )
    assert text.count(matrix) == 2  # found and printed
    assert "rankings of 25 models" in text
    assert "| PCME CutMix (retrained by ECCV Caption) |   3 |  16 | 2.5 |" in text

    found = json.loads((out / "agreement.json").read_text())
    assert found["metrics"] == METRICS
    assert found["models"] == [[25] * 3] * 3
    assert np.diag(found["tau_b"]) == pytest.approx([1, 1, 1])
    assert found["ranks"]["pmrp/mean"]["PCME CutMix (retrained by ECCV Caption)"] == 2.5
    with Image.open(out / "bump_chart.png") as picture:
        assert picture.format == "PNG"
        assert min(picture.size) > 400


def test_what_is_undefined_is_said_and_null(tmp_path):
    path = tmp_path / "models.json"
    path.write_text('{"a": {"x": 1, "y": 2}, "b": {"x": 1, "y": 3}, "c": {"y": 1, "z": 2}}')
    text = compare([str(path)], str(tmp_path / "out"))
    assert "rankings of 2 to 3 models" in text
    assert (
        "- Left out, as fewer than two models have them: metrics of z (1).\n"
        "- Without tau, as fewer than two models have them or all have the same value: x.\n"
    ) in text
    assert "| (1) x |     |   - |" in text
    assert "| (1) x |   2 |   2 |" in text
    assert "| c |   - |   3 |" in text
    assert "table 5" not in text  # none of its metrics
    found = json.loads((tmp_path / "out/agreement.json").read_text())
    assert found["tau_b"][0][1] is None


def test_an_output_that_is_a_file_is_refused(table):
    with pytest.raises(UserError, match="Cannot write to .*table.json"):
        compare([table], table, METRICS)
    with open(table) as file:
        assert json.load(file) == eccv_table_4()
