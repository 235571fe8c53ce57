"""The command that compares metrics, from input files to output files."""

import json
import re
import resource

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
    assert found["ranks"]["pmrp/mean"]["PCME CutMix"] == 2.5
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
        "- Without tau, as all models have the same value: x.\n"
    ) in text
    assert "| (1) x |     |   - |" in text
    assert "| (1) x |   2 |   2 |" in text
    assert "| c |   - |   3 |" in text
    assert "table 5" not in text  # none of its metrics
    found = json.loads((tmp_path / "out/agreement.json").read_text())
    assert found["tau_b"][0][1] is None


def test_nothing_is_written_where_something_is_wrong(tmp_path, table):
    out = tmp_path / "out"
    with pytest.raises(UserError, match="No model has"):
        compare([table], str(out), ["accuracy"])
    (tmp_path / "one").mkdir()
    (tmp_path / "one/metrics.json").write_text('{"x": 1, "y": 2}')
    with pytest.raises(UserError, match="has only 'one': name two or more"):
        compare([str(tmp_path / "one")], str(out))
    assert not out.exists()


def test_a_full_disk_leaves_the_earlier_output(tmp_path, table):
    out = tmp_path / "out"
    compare([table], str(out), METRICS)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    sizes = {name: len(content) for name, content in before.items()}
    assert sizes["agreement.json"] + sizes["agreement.md"] < 10_000 < sizes["bump_chart.png"]
    # No file may exceed 10,000 bytes, so writing the chart, which comes last, fails.
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        with pytest.raises(UserError, match="Cannot write to .*out: .*too large"):
            compare([table], str(out), METRICS[:2])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


@pytest.mark.parametrize("metrics", [METRICS, METRICS[:2]])
def test_rules_of_the_tables_are_markdown(tmp_path, metrics):
    path = tmp_path / "models.json"
    path.write_text(json.dumps({name: dict.fromkeys(METRICS, 1) for name in "ab"}))
    lines = compare([str(path)], str(tmp_path / "out"), metrics).splitlines()
    # Below every header is a rule with as many cells, each with at least one dash.
    heads = [i for i, line in enumerate(lines) if line.startswith("|") and not lines[i - 1]]
    assert len(heads) == 3
    for i in heads:
        assert re.fullmatch(r"\|( -+:? \|)+", lines[i + 1])
        assert lines[i].count("|") == lines[i + 1].count("|") == len(metrics) + 2


def test_an_output_that_is_a_file_is_refused(table):
    with pytest.raises(UserError, match="Cannot write to .*table.json"):
        compare([table], table, METRICS)
    with open(table) as file:
        assert json.load(file) == eccv_table_4()
