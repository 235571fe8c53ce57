"""Dataset precision and recall, against hand-computed values and on the released labels."""

import json
import sys

import pytest

from data_prep.eccv_labels.label_files import read_positives
from xmodal.apps.analysis import label_quality as command
from xmodal.apps.analysis.label_quality import label_quality

TRUTH = {1: [10, 11, 12, 13], 2: [20], 3: [30, 31]}
LABELS = {1: [10, 99], 2: [20], 4: [40]}


def test_precision_and_recall_worked_by_hand():
    found = label_quality(LABELS, TRUTH)
    assert found.recall == pytest.approx(100 * (1 / 4 + 1 + 0) / 3)
    assert found.precision == pytest.approx(100 * (1 / 2 + 1) / 2)  # 3 has no label, 4 no truth
    assert (found.precision_queries, found.recall_queries) == (2, 3)


def test_table_2_from_the_answers_of_raters(tmp_path, monkeypatch, capsys):
    """The columns are those that the paper's `human_verified_pairs_func.py` reads."""
    rows = [
        ("clip", 1, 0.9, 10, 1, 1, "", ""),
        ("vsrn", 2, 0.8, 10, 1, 4, "", ""),  # again: one yes is enough
        ("clip", 2, 0.7, 20, 1, 2, "the color, not the dog", ""),
        ("clip", 3, 0.6, 30, 1, 3, "", ""),
        ("clip", 1, 0.9, 10, 2, 4, "", ""),
        ("clip", 1, 0.9, 20, 2, 1, "", ""),
        ("clip", 1, 0.9, 20, 9, 1, "", ""),  # 9 is no query of the released lists
        ("clip", 1, 0.9, "", "", 1, "", ""),
    ]
    head = "model,ranking,score,cid,iid,annotation,shortcoming,shortcoming2"
    quoted = [",".join(f'"{cell}"' for cell in row) for row in rows]
    (tmp_path / "mturk_parsed.csv").write_text("\n".join([head, *quoted, ""]))
    lists = {
        "original": ({1: [10, 11], 2: [20]}, {10: [1], 20: [2]}),
        "eccv": ({1: [10, 20], 2: [20]}, {10: [1], 20: [1, 2], 30: [1]}),
    }
    for name, pair in lists.items():
        for end, found in zip(("image_to_caption", "caption_to_image"), pair, strict=True):
            (tmp_path / f"{name}_{end}.json").write_text(json.dumps(found))

    def run(*flags):
        arguments = [f"--labels={tmp_path}", f"--truth={tmp_path}/mturk_parsed.csv", *flags]
        monkeypatch.setattr(sys, "argv", ["label_quality", *arguments])
        command.main()
        lines = capsys.readouterr().out.splitlines()
        return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]

    head, _, *rows = run()
    assert (head[3], head[6]) == (
        "I2T recall of 3 positives of 2 queries",
        "T2I recall of 4 positives of 2 queries",
    )
    # Caption 11 was never seen. Image 2 was, with caption 10, and is wrong there. No image of
    # caption 30 is right: its precision is 0.
    assert rows == [
        ["eccv", "100.0", "100.0", "100.0", "66.7", "66.7", "83.3"],
        ["original", "75.0", "100.0", "75.0", "100.0", "100.0", "66.7"],
    ]
    head, _, *rows = run("--strict")  # without (20, 1)
    assert rows[0] == ["eccv", "75.0", "75.0", "100.0", "50.0", "50.0", "75.0"]


@pytest.mark.parametrize(
    ("direction", "labels", "recall", "precision", "published"),
    [
        ("image_to_caption", "cxc", 41.92, 99.987, 23.0),
        ("caption_to_image", "original", 13.59, 100.0, 13.8),
    ],
)
def test_released_labels_against_eccv_caption(
    direction, labels, recall, precision, published, real_data
):
    """The figures differ from the paper's, which are based on unreleased raw human answers.

    The released positives are the human ones plus all of CxC. So labels that people never confirmed
    count as found, and recall is higher than published, much higher where CxC adds many positives
    (5,560 of 22,550 captions come only from CxC, but 465 of 11,279 images). COCO's own image of a
    caption is the only label that this hardly affects: 13.6 instead of 13.8. Precision is near 100
    for the same reason; the paper's requires the pairs that people saw.
    """
    truth = read_positives(real_data / "eccv_caption" / f"eccv_{direction}.json")
    tested = read_positives(real_data / "eccv_caption" / f"{labels}_{direction}.json")
    found = label_quality(tested, truth)
    assert found.recall == pytest.approx(recall, abs=0.01)
    assert found.precision == pytest.approx(precision, abs=0.001)
    assert found.recall > published - 0.3
    assert found.recall_queries == {"image_to_caption": 1261, "caption_to_image": 1332}[direction]
