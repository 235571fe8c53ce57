"""Regions of any images, in a `dataset.json` in Karpathy's format."""

import base64
import json

import numpy as np
import pytest

from data_prep.region_features.region_features_dataset_builder import Builder
from tests.data_prep.builds import build

# Name -> split, number of regions and tags.
_IMAGES = {
    "dog_7.jpg": ("train", 3, ["dog", "grass"]),
    "8.png": ("train", 1, []),
    "cat_9.jpg": ("val", 2, ["cat"]),
    "10.jpg": ("test", 4, ["tree"]),
}


def _rows(name):
    return np.full((_IMAGES[name][1], 2054), len(name), np.float32)


@pytest.fixture
def folder(tmp_path):
    _write(tmp_path, list(_IMAGES))
    (tmp_path / "features").mkdir()
    stems = {name: name.partition(".")[0] for name in _IMAGES}
    lines = [
        f"{stem}\t{len(_rows(name))}\t{base64.b64encode(_rows(name)).decode()}"
        for name, stem in stems.items()
    ]
    (tmp_path / "features/features.tsv").write_text("\n".join(lines))
    objects = {name: [{"class": each} for each in tags] for name, (*_, tags) in _IMAGES.items()}
    lines = [f"{stem}\t{json.dumps(objects[name])}" for name, stem in stems.items()]
    (tmp_path / "features/predictions.tsv").write_text("\n".join(lines))
    return tmp_path


def _write(folder, names):
    images = [
        {
            "filename": name,
            "imgid": number,
            "split": _IMAGES.get(name, ("train",))[0],
            "sentences": [{"raw": f"a caption of {name}", "sentid": number}],
        }
        for number, name in enumerate(names)
    ]
    (folder / "dataset.json").write_text(json.dumps({"images": images}))


def test_any_number_of_images_has_regions_and_tags(folder):
    builder = build(Builder, folder, "vinvl")
    found = {
        int(each["image_id"]): each
        for split in ("train", "validation", "test")
        for each in builder.as_data_source(split)
    }
    for number, (name, (*_, tags)) in enumerate(_IMAGES.items()):
        np.testing.assert_array_equal(found[number]["image"], _rows(name))
        assert found[number]["tags"].decode() == " ".join(tags)
        assert [text.decode() for text in found[number]["captions"]] == [f"a caption of {name}"]
