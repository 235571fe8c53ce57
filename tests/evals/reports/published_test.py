"""Published numbers, read from the results, against each other."""

import pytest

from xmodal.evals.reports import published


def test_every_model_of_table_4_has_its_six_sound_columns():
    rows = published.eccv_table_4()
    assert len(rows) == 25
    in_1k = {"coco1k/mean/recall@1"}
    sound = set(published.ECCV_TABLE_5_METRICS) - in_1k
    assert all(len(set(row) & sound) == 6 and set(row) <= sound | in_1k for row in rows.values())
    known = {name: row["coco1k/mean/recall@1"] for name, row in rows.items() if in_1k <= set(row)}
    assert known["VSE-inf WSL grid"] == 78.25
    directions = published.published_numbers()
    for name, row in directions["coco1k"].items():
        assert known[name] == pytest.approx(
            sum(row[f"coco1k/{x}/recall@1"] for x in ("i2t", "t2i")) / 2
        )


def test_recalls_rise_with_k_and_fall_with_the_median_rank():
    count = 0
    for board, models in published.published_numbers().items():
        for row in models.values():
            for task in ("i2t", "t2i", "t2t", "i2i"):
                recalls = {k: row.get(f"{board}/{task}/recall@{k}") for k in (1, 5, 10)}
                found = [recall for recall in recalls.values() if recall is not None]
                assert found == sorted(found)
                count += bool(found)
                if median := row.get(f"{board}/{task}/median_rank"):
                    # The median query is a hit exactly from its rank on.
                    assert all((recall >= 50) == (median <= k) for k, recall in recalls.items())
    assert count > 60


def test_rows_by_board():
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
    # ECCV Caption's authors and open_clip evaluated the same weights in different precision.
    both = [rows["coco5k"][name] for name in ("CLIP ViT-L/14", "CLIP ViT-L/14 (open_clip)")]
    assert both[0] == pytest.approx(both[1], abs=0.2)
    assert rows["cxc_sits_only"]["CLIP ViT-L/14"]["cxc_sits_only/rsum"] == pytest.approx(404.49)
    assert len(published.eccv_table_5()) == 110
