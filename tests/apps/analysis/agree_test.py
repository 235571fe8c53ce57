"""The command that compares metrics, from input files to output files."""

import itertools
import json
import math

import numpy as np
import pytest

from xmodal.apps.analysis.agree import compare, kendall_tau_b
from xmodal.apps.reproduction.entries import read_results
from xmodal.evals.reports.published import eccv_table_4, eccv_table_5

METRICS = ["eccv/mean/map@r", "coco5k/mean/recall@1", "pmrp/mean"]


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "table.json"
    path.write_text(json.dumps(eccv_table_4()))
    return str(path)


def test_the_papers_models_give_its_matrix(tmp_path, table):
    text = compare([table], str(tmp_path / "out/meta"), METRICS)
    out = tmp_path / "out/meta"
    assert (out / "bump_chart.png").exists()
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


def tau(models, left, right):
    return kendall_tau_b(models, [left, right])[0][0, 1]


def test_table_5_follows_from_table_4():
    models, printed = eccv_table_4(), eccv_table_5()
    # Table 4 has six of the eleven metrics of table 5 for all its models.
    tags = dict.fromkeys(tag for tag, _ in printed)
    whole = [tag for tag in tags if all(tag in row for row in models.values())]
    for left, right in itertools.combinations(whole, 2):
        found = tau(models, left, right)
        if {left, right} == {"eccv/mean/recall@1", "pmrp/mean"}:
            # Two models have the PMRP 57.65, perhaps only after rounding: 0.29 is printed.
            assert f"{found:.3f}" == "0.284"
        else:
            assert f"{found:.2f}" == f"{printed[left, right]:.2f}"
    rows = read_results().of_system("eccv_caption/tau")
    cells = [value.number for row in rows for value in row.measured.values()]
    assert len(cells) == math.comb(len(whole), 2) == 15
    order = {tag: place for place, tag in enumerate(dict.fromkeys(tag for tag, _ in printed))}
    pairs = [(a, b) for a, b in itertools.combinations(sorted(whole, key=order.get), 2)]
    assert [round(tau(models, *pair), 2) for pair in pairs] == cells
