"""Tables and files."""

import json
import math

import pytest

from xmodal.evals import report

METRICS = {
    "cxc/i2t/recall@1": 55.94,
    "cxc/i2t/recall@5": 84.25,
    "cxc/i2t/recall@10": 91.75,
    "cxc/i2t/median_rank": 1.0,
    "cxc/i2t/queries": 5000.0,
    "cxc/i2t/skipped_queries": 0.0,
    "cxc/i2t/tied_queries": 12.0,
    "cxc/i2t/gallery": 25000.0,
    "cxc/sts/spearman": 74.24,
    "cxc/sts/spearman_std": 0.41,
    "cxc/sis/spearman": math.nan,
    "cxc/sis/spearman_std": math.nan,
    "cxc/mean_recall@10": 91.75,
}


def test_tables_are_aligned_and_hold_the_numbers():
    text = report.format_report({"ours": METRICS}, title="coco_captions test")
    assert text == (
        "# coco_captions test\n\n"
        "## cxc\n\n"
        "| Retrieval | I→T R@1 |  R@5 | R@10 | med r |\n"
        "| --------- | ------: | ---: | ---: | ----: |\n"
        "| ours      |    55.9 | 84.2 | 91.8 |     1 |\n\n"
        "| Spearman x100 |        STS | SIS |\n"
        "| ------------- | ---------: | --: |\n"
        "| ours          | 74.2 ± 0.4 |   - |\n\n"
        "Queries of ours: I→T 5,000 in 25,000 (0 without positive, 12 tied).\n"
    )


def test_published_rows_stand_beside_ours():
    text = report.format_report({"ours": METRICS, "other": METRICS}, title="t", published=True)
    rows = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| ")]
    assert rows.index("DE_T2T+I2T") < rows.index("ours") < rows.index("other")
    assert "|    55.9 | 84.2 | 91.8 |     1 |" in text  # the printed row of DE_T2T+I2T
    # Models without the tasks of a table are left out of it.
    assert rows.count("SimCLRv2") == 1


def test_files_are_whole_and_valid_json(tmp_path):
    report.write_results(tmp_path / "out", METRICS, "text\n")
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["metrics.json", "report.md"]

    def refuse(constant):
        pytest.fail(f"{constant} is not JSON")

    found = json.loads((tmp_path / "out/metrics.json").read_text(), parse_constant=refuse)
    assert found == {k: None if math.isnan(v) else v for k, v in METRICS.items()}
    assert (tmp_path / "out/report.md").read_text() == "text\n"
