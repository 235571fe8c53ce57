"""Label files of a tiny split: content, restriction to a part of it, errors."""

import json

import numpy as np
import pytest

from xmodal.core.errors import UserError
from xmodal.evals.labels import annotations
from xmodal.evals.labels import make as benchmarks

# Files of a tiny split: images 30, 10 and 20, two captions each.
CAPTIONS = {"8": [30], "5": [10], "7": [20], "6": [10], "3": [30], "4": [20]}
ORDER = [5, 6, 8, 3, 7, 4]


def image(image_id):
    return f"COCO_val2014_{image_id:012}.jpg"


def write_files(folder):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "original_caption_to_image.json").write_text(json.dumps(CAPTIONS))
    np.save(folder / "coco_test_ids.npy", np.array(ORDER))
    lists = {"image_to_caption": {"10": [5, 8], "20": [99]}, "caption_to_image": {"7": [30, 20]}}
    for modality, content in lists.items():
        (folder / f"eccv_{modality}.json").write_text(json.dumps(content))
    rows = [
        f"COCO_val2014:sentid:{c},{image(i)},{s},c2i_intrasim\n"
        for c, i, s in ((5, 30, 4), (8, 10, 1))
    ]
    header = "caption,image,agg_score,sampling_method\n"
    (folder / "sits_test.csv").write_text(header + "".join(rows))
    objects = [(10, 3), (10, 3), (10, 90), (20, 1), (999, 1)]
    content = {
        "images": [{"id": each, "file_name": image(each)} for each in (10, 20, 999)],
        "categories": [{"id": each, "name": "x"} for each in (90, 1, 3)],
        "annotations": [
            {"image_id": i, "category_id": c, "iscrowd": 1, "segmentation": {"counts": [1, 2]}}
            for i, c in objects
        ],
    }
    (folder / "instances_val2014.json").write_text(json.dumps(content))
    return folder


def test_a_tiny_split(tmp_path):
    write_files(tmp_path / "somewhere" / "below")
    labels = annotations.read_annotations(str(tmp_path), "test")
    assert labels.caption_ids.tolist() == ORDER
    assert labels.caption_image_ids.tolist() == [10, 10, 30, 30, 20, 20]
    assert labels.image_ids.tolist() == [10, 30, 20]
    assert labels.categories.tolist() == [[0, 1, 1], [0, 0, 0], [1, 0, 0]]  # columns 1, 3, 90
    assert labels.caption_categories.tolist() == labels.categories.repeat(2, axis=0).tolist()
    assert labels.folds.tolist() == [0, 0, 0]
    assert labels.shortlist is None
    assert labels.ratings["sits"]["left_ids"].tolist() == [5, 8]
    assert [ids.tolist() for ids in labels.lists["eccv"]["i2t"]] == [[10, 10, 20], [5, 8, 99]]
    assert [ids.tolist() for ids in labels.lists["eccv"]["t2i"]] == [[7, 7], [30, 20]]
    assert labels.partial == ""


def test_restricting_drops_missing_items(tmp_path):
    labels = annotations.read_annotations(write_files(tmp_path), "test")
    part = annotations.restrict(labels, np.array([20, 10, 77]), np.array([5, 7, 8]))
    assert part.partial == "2 of 3 images and 3 of 6 captions"
    assert part.image_ids.tolist() == [10, 20]
    assert part.caption_ids.tolist() == [5, 8, 7]
    assert part.caption_image_ids.tolist() == [10, 30, 20]  # caption 8 remains without its image
    assert part.categories.tolist() == [[0, 1, 1], [1, 0, 0]]
    assert part.caption_categories.tolist() == [[0, 1, 1], [0, 0, 0], [1, 0, 0]]
    assert part.folds is None
    assert part.ratings["sits"]["left_ids"].tolist() == [8]
    # Caption 99 was never in the split, so it still counts; image 30 is only missing here.
    assert [ids.tolist() for ids in part.lists["eccv"]["i2t"]] == [[10, 10, 20], [5, 8, 99]]
    assert [ids.tolist() for ids in part.lists["eccv"]["t2i"]] == [[7], [20]]
    made = {benchmark.name: benchmark for benchmark in benchmarks.make_benchmarks(part)}
    # Nothing is left of cxc_sits_only: the only remaining rated pair is below 3.
    assert list(made) == ["coco5k", "eccv", "pmrp"]
    assert made["coco5k"].directions["t2i"].positives.lengths.tolist() == [1, 0, 1]
    # No two captions of one image are left.
    assert set(made["coco5k"].directions) == {"i2t", "t2i"}
    assert made["eccv"].directions["i2t"].unreachable.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("name", "content"),
    [("eccv_image_to_caption.json", b'{"10": [5'), ("coco_test_ids.npy", b"not npy")],
)
def test_damaged_files(tmp_path, name, content):
    (write_files(tmp_path) / name).write_bytes(content)
    with pytest.raises(UserError, match=f"{name} cannot be read .* get the released file again"):
        annotations.read_annotations(tmp_path, "test")
