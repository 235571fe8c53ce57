"""im2txt's split and the object categories, from small stand-ins for the official files."""

import io
import json
import zipfile

import numpy as np
import PIL.Image
import pytest

from data_prep.coco_captions import categories
from data_prep.coco_captions.coco_captions_dataset_builder import Builder
from tests.data_prep.builds import build
from xmodal.core.errors import UnexpectedFilesError

# In the order of the annotation file, not of the ids.
_TRAIN = [57870, 9, 25]
_VAL = [391895, *range(500, 519)]
_CAPTIONS = 5
_NAMES = {1: "person", 3: "car", 90: "toothbrush"}


def _file_name(part, image_id):
    return f"COCO_{part}_{image_id:012d}.jpg"


def _captions(part, ids):
    annotations = [
        {"image_id": image_id, "id": 10 * image_id + k, "caption": f"caption {k} of {image_id}"}
        for k in range(_CAPTIONS)
        for image_id in reversed(ids)
    ]
    images = [{"id": i, "file_name": _file_name(part, i), "height": 4} for i in ids]
    return {"images": images, "annotations": annotations}


def _instances(part, ids, shown):
    outline = {"segmentation": [[1.5, 2.0, 3.5, 1.0]], "area": 3.0}
    return {
        "images": [{"id": i, "file_name": _file_name(part, i)} for i in ids],
        "annotations": [
            outline | {"id": 7, "image_id": image_id, "category_id": category}
            for image_id, category in shown
        ],
        "categories": [{"id": k, "name": name, "supercategory": "x"} for k, name in _NAMES.items()],
    }


@pytest.fixture
def manual_dir(tmp_path, monkeypatch):
    expected = {"train2014": 3, "val2014": 20, "captions": 23 * _CAPTIONS}
    monkeypatch.setattr(Builder, "EXPECTED", expected)
    with zipfile.ZipFile(tmp_path / "annotations_trainval2014.zip", "w") as archive:
        for part, ids in (("train2014", _TRAIN), ("val2014", _VAL)):
            content = json.dumps(_captions(part, ids))
            archive.writestr(f"__MACOSX/annotations/._captions_{part}.json", "not this one")
            archive.writestr(f"annotations/captions_{part}.json", content)
        shown = [(391895, 90), (391895, 1), (391895, 1), (518, 3)]
        content = json.dumps(_instances("val2014", _VAL, shown))
        archive.writestr("annotations/instances_val2014.json", content)
    for part, ids in (("train2014", _TRAIN), ("val2014", _VAL)):
        with zipfile.ZipFile(tmp_path / f"{part}.zip", "w") as archive:
            for image_id in ids:
                file = io.BytesIO()
                PIL.Image.new("RGB", (5, 4 + image_id % 50)).save(file, "JPEG")
                archive.writestr(f"{part}/{_file_name(part, image_id)}", file.getvalue())
    return tmp_path


def _read(builder):
    return {
        split: {int(example["image_id"]): example for example in builder.as_data_source(split)}
        for split in builder.info.splits
    }


def test_val2014_is_cut_in_the_order_of_its_file(manual_dir):
    found = _read(build(Builder, manual_dir, "im2txt"))
    assert set(found["train"]) == {*_TRAIN, *_VAL[:17]}
    assert set(found["validation"]) == {_VAL[17]}
    assert set(found["test"]) == set(_VAL[18:])
    example = found["train"][391895]
    assert example["image"].shape == (4 + 391895 % 50, 5, 3)
    assert list(example["caption_ids"]) == [3918950 + k for k in range(_CAPTIONS)]
    assert example["captions"][2].decode() == "caption 2 of 391895"


def test_categories_are_those_of_the_instances_where_they_are_known(manual_dir):
    builder = build(Builder, manual_dir, "im2txt")
    assert builder.info.metadata["categories"] == ["person", "car", "toothbrush"]
    found = _read(builder)
    assert list(found["train"][391895]["categories"]) == [1, 0, 1]
    assert list(found["test"][518]["categories"]) == [0, 1, 0]
    assert list(found["train"][500]["categories"]) == [0, 0, 0]
    assert list(found["train"][9]["categories"]) == []


def test_a_table_of_categories_is_read_where_there_are_no_instances(tmp_path):
    path = tmp_path / "val2014_categories.npz"
    labels = np.array([[0, 1], [1, 0]], np.int64)
    np.savez(path, image_ids=np.array([7, 8]), labels=labels, category_names=["a", "b"])
    found = categories.read_categories(tmp_path)
    assert (found.names, found.of(8).tolist(), found.of(9).tolist()) == (("a", "b"), [1, 0], [])
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(UnexpectedFilesError, match=f"{path} does not have the published format"):
        categories.read_categories(tmp_path)


def test_pairs_of_test_captions_come_from_all_captions(manual_dir, monkeypatch):
    monkeypatch.setattr("data_prep.caption_pairs.PAIRS", 2)
    for part in ("train2014", "val2014"):
        (manual_dir / f"{part}.zip").unlink()  # no pictures are needed
    builder = build(Builder, manual_dir, "im2txt_test_pairs")
    assert list(builder.info.splits) == ["test"]
    pairs = list(builder.as_data_source("test"))
    assert sorted(pair["score"] for pair in pairs) == [0, 0, 1, 1]
    test = {str(image) for image in _VAL[18:]}
    for pair in pairs:
        assert pair["dataset"] == b"coco_test"
        images = [pair[f"sentence{k}"].decode().split()[-1] for k in (1, 2)]
        assert set(images) <= test
        assert (images[0] == images[1]) == (pair["score"] == 1)
