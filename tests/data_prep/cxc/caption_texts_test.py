"""Caption texts by id, from every common file."""

import gzip
import json
import zipfile

import pytest

from data_prep.cxc.caption_texts import read_caption_texts

_KARPATHY = {
    "images": [
        {"sentences": [{"sentid": 7, "raw": "A dog. "}, {"sentid": 8, "raw": " "}]},
        {"sentences": [{"sentid": 9, "raw": "naïve"}]},
    ]
}
_OFFICIAL = {"annotations": [{"id": 7, "image_id": 1, "caption": "A cat."}]}
_TABLE = 'caption_id,image_id,caption\n7,1,"A bird, flying"\n'


def test_the_first_file_that_is_there_counts(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no dataset_coco\.json, captions_val2014\.json"):
        read_caption_texts(tmp_path)
    with gzip.open(tmp_path / "captions_val.csv.gz", "wt") as file:
        file.write(_TABLE)
    (tmp_path / "captions_more.csv").write_text("caption,caption_id\nmore,10\n")
    assert read_caption_texts(tmp_path) == {7: "A bird, flying", 10: "more"}
    with zipfile.ZipFile(tmp_path / "annotations_trainval2017.zip", "w") as archive:
        for part, number in (("train", 7), ("val", 3)):
            content = {"annotations": [{"id": number, "image_id": 1, "caption": f"In {part}."}]}
            archive.writestr(f"annotations/captions_{part}2017.json", json.dumps(content))
    assert read_caption_texts(tmp_path) == {7: "In train.", 3: "In val."}
    with zipfile.ZipFile(tmp_path / "annotations_trainval2014.zip", "w") as archive:
        archive.writestr("annotations/captions_val2014.json", json.dumps(_OFFICIAL))
    assert read_caption_texts(tmp_path) == {7: "A cat."}
    (tmp_path / "dataset_coco.json").write_text(json.dumps(_KARPATHY))
    assert read_caption_texts(tmp_path) == {7: "A dog. ", 9: "naïve"}
