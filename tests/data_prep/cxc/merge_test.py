"""Karpathy's JSON with the scores of CxC."""

import csv
import gzip
import json
import sys

from data_prep.cxc import merge
from data_prep.cxc.rating_files import read_ratings


def _name(image):
    return f"COCO_val2014_{image:012d}.jpg"


def _image(number, split, *sentids):
    return {"filename": _name(number), "split": split, "sentids": list(sentids)}


def test_the_file_is_that_of_the_script_of_the_release(tmp_path, monkeypatch, capsys):
    images = [
        _image(1, "val", 11, 12),
        _image(2, "test", 21),
        _image(3, "test"),
        _image(4, "train"),
    ]
    content = {"images": images, "dataset": "coco"}
    (tmp_path / "dataset_coco.json").write_text(json.dumps(content))
    rows = {
        "val": [(11, 1, "5.0", "c2i_original"), (12, 1, "4.2", "c2i_original")],
        "test": [(21, 2, "4.86", "c2i_original"), (21, 3, "1.1", "c2i_intrasim")],
    }
    for split, pairs in rows.items():
        lines = [f"COCO_val2014:sentid:{c},{_name(i)},{score},{how}" for c, i, score, how in pairs]
        text = "\n".join(["caption,image,agg_score,sampling_method", *lines])
        (tmp_path / f"sits_{split}.csv").write_text(text)
    folders = [f"--manual_dir={tmp_path}", f"--ratings_dir={tmp_path}"]
    monkeypatch.setattr(sys, "argv", ["merge", *folders, f"--output={tmp_path / 'merged.json'}"])
    merge.main()
    assert "the scores of 4 pairs" in capsys.readouterr().out
    scores = [
        [[11, "5.0", "c2i_original"], [12, "4.2", "c2i_original"]],
        [[21, "4.86", "c2i_original"], [_name(3), "1.1", "c2i_intrasim"]],
        [[21, "1.1", "c2i_intrasim"]],
    ]
    merged = [each | {"cxc_scores": own} for each, own in zip(images, scores, strict=False)]
    expected = {"images": [*merged, images[3]], "dataset": "coco"}
    assert json.loads((tmp_path / "merged.json").read_text()) == expected


def test_released_scores_are_those_of_both_items(real_data):
    images = {}
    with gzip.open(real_data / "coco/karpathy_5k_caption_image.csv.gz", "rt") as file:
        for row in csv.DictReader(file):
            number, split = int(row["image_id"]), row["split"]
            image = images.setdefault(number, _image(number, split))
            image["sentids"].append(int(row["caption_id"]))
    content = {"images": list(images.values())}
    merge.add_scores(content, read_ratings(real_data / "cxc/sits_test.csv", "sits"))
    # All pairs of the images, and those of other images again with the captions.
    scores = [each["cxc_scores"] for each in content["images"]]
    assert sum(map(len, scores)) == 44_833 + 19_833
    for image in content["images"]:
        own = {item for item, _, method in image["cxc_scores"] if method == "c2i_original"}
        assert own == (set(image["sentids"]) if image["split"] == "test" else set())
