"""Published numbers, read from the results, against each other."""

import pytest

from xmodal.evals.reports import published


def test_rows_by_benchmark():
    rows = published.published_numbers()
    assert list(rows) == list(published.PUBLISHED_LABELS)
    assert rows["cxc"]["BoW GloVe"] == {
        "cxc/t2t/recall@1": 21.2,
        "cxc/t2t/recall@5": 38.2,
        "cxc/t2t/recall@10": 47.4,
        "cxc/t2t/median_rank": 13,
        "cxc/sts/spearman": 55.1,
        "cxc/sts/spearman_std": 0.6,
    }
    assert "cxc/t2t/recall@10" not in rows["cxc"]["VSE-inf WSL grid"]
    assert rows["cxc_sits_only"]["CLIP ViT-L/14"]["cxc_sits_only/rsum"] == pytest.approx(404.49)
    assert len(published.eccv_table_5()) == 110
