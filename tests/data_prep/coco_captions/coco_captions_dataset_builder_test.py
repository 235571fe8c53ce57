"""COCO captions from small stand-ins for Karpathy's file and the image folders."""

import io
import json
import zipfile

import PIL.Image
import pytest

from data_prep.coco_captions.coco_captions_dataset_builder import Builder
from tests.data_prep.builds import build

# COCO id -> Karpathy split, image folder, number of captions.
_IMAGES = {
    9: ("train", "train2014", 6),
    25: ("train", "train2014", 5),
    42: ("restval", "val2014", 7),
    73: ("val", "val2014", 6),
    74: ("test", "val2014", 5),
    133: ("test", "val2014", 6),
}
_EXPECTED = {"train": 2, "restval": 1, "val": 1, "test": 2, "captions": 35}


def _file_name(folder, image_id):
    return f"COCO_{folder}_{image_id:012d}.jpg"


def _sentences(image_id, count):
    # Unsorted ids, as in the published file.
    return [
        {"raw": f"caption {k} of {image_id}", "tokens": [], "sentid": 1000 * image_id + 7 * k % 10}
        for k in range(count)
    ]


def _records():
    return [
        {
            "filepath": folder,
            "filename": _file_name(folder, image_id),
            "split": split,
            "cocoid": image_id,
            "imgid": number,
            "sentences": _sentences(image_id, count),
        }
        for number, (image_id, (split, folder, count)) in enumerate(_IMAGES.items())
    ]


@pytest.fixture
def manual_dir(tmp_path, monkeypatch):
    monkeypatch.setattr(Builder, "EXPECTED", _EXPECTED)
    (tmp_path / "dataset_coco.json").write_text(json.dumps({"images": _records()}))
    (tmp_path / "train2014").mkdir()
    with zipfile.ZipFile(tmp_path / "val2014.zip", "w") as archive:
        for image_id, (_, folder, _) in _IMAGES.items():
            file = io.BytesIO()
            PIL.Image.new("RGB", (10, image_id)).save(file, "JPEG")
            name = f"{folder}/{_file_name(folder, image_id)}"
            if folder == "val2014":
                archive.writestr(name, file.getvalue())
            else:
                (tmp_path / name).write_bytes(file.getvalue())
    return tmp_path


def test_splits_ids_and_captions(manual_dir):
    builder = build(Builder, manual_dir)
    expected = {"train": {9: 6, 25: 5, 42: 7}, "validation": {73: 5}, "test": {74: 5, 133: 5}}
    for split, counts in expected.items():
        examples = {int(e["image_id"]): e for e in builder.as_data_source(split)}
        assert {i: len(e["captions"]) for i, e in examples.items()} == counts
        for image_id, example in examples.items():
            assert example["image"].shape == (image_id, 10, 3)
            sentences = _sentences(image_id, counts[image_id])
            assert list(example["caption_ids"]) == [s["sentid"] for s in sentences]
            assert [c.decode() for c in example["captions"]] == [s["raw"] for s in sentences]


@pytest.mark.parametrize("content", ["images", "captions"])
def test_training_without_restval(content, manual_dir):
    builder = build(Builder, manual_dir, config=f"{content}_without_restval")
    restval = {i for i, (split, *_) in _IMAGES.items() if split == "restval"}
    assert restval
    found = {int(example["image_id"]) for example in builder.as_data_source("train")}
    assert found == {9, 25, 42} - restval
    assert ("image" in builder.info.features) == (content == "images")


def test_images_of_2017_give_the_same_records(manual_dir):
    expected = build(Builder, manual_dir).info.metadata["split_hashes"]
    train = [9, 42, 74, 133]  # split differently from 2014
    packed = zipfile.ZipFile(manual_dir / "val2014.zip")
    for part in ("train2017", "val2017"):
        (manual_dir / part).mkdir()
    for image_id, (_, folder, _) in _IMAGES.items():
        path = f"{folder}/{_file_name(folder, image_id)}"
        content = packed.read(path) if "val" in path else (manual_dir / path).read_bytes()
        place = manual_dir / ("train2017" if image_id in train else "val2017")
        (place / f"{image_id:012d}.jpg").write_bytes(content)
    (manual_dir / "val2014.zip").unlink()
    (manual_dir / "tfds").rename(manual_dir / "before")
    assert build(Builder, manual_dir).info.metadata["split_hashes"] == expected


@pytest.mark.slow
def test_the_real_captions_and_images_that_are_at_hand(real_data, tmp_path):
    builder = build(Builder, real_data / "coco", data_dir=tmp_path, min_kept=0.03)
    metadata = builder.info.metadata
    # 1,060 images; 66 from CxC's validation split have no caption.
    assert metadata["kept"] == {"train": 479 + 239, "validation": 161 - 66, "test": 181}
    assert metadata["left_out"]["test"] == {"no image": 5000 - 181}
    assert not metadata["complete"]
    assert [metadata["categories"][k] for k in (0, 79)] == ["person", "toothbrush"]
    test = list(builder.as_data_source("test"))
    assert {len(example["captions"]) for example in test} == {5}
    # The table contains 99 % of the test images, and none from train2014.
    assert sum(len(example["categories"]) == 80 for example in test) >= 175
    train = builder.as_data_source("train")
    assert 400 < sum(len(example["categories"]) == 80 for example in train) <= 479
