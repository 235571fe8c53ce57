"""The labels of ECCV Caption from stand-ins of the released files, and from the real ones."""

import json

import numpy as np
import pytest

from data_prep.eccv_labels.eccv_labels_dataset_builder import Builder
from tests.data_prep.builds import build

# Images 9 and 7 with their captions; 99 is a sixth caption of image 9.
_CAPTIONS = {9: [90, 91, 92, 93, 94], 7: [70, 71, 72, 73, 74]}
_ORDER = [*_CAPTIONS[9], *_CAPTIONS[7]]
_FILES = {
    "eccv_image_to_caption.json": {"9": [90, 72, 99], "7": [70]},
    "eccv_caption_to_image.json": {"91": [9, 7]},
    "pm_image_to_caption.json": {"7": [90]},
    "pm_caption_to_image.json": {"70": [], "90": [7]},
    "original_caption_to_image.json": {
        str(caption): [image] for image, captions in _CAPTIONS.items() for caption in captions
    },
}
_EXPECTED = {
    "images": 2,
    "captions": 10,
    "eccv/i2t/queries": 2,
    "eccv/i2t/positives": 4,
    "eccv/i2t/unreachable": 1,
    "eccv/t2i/unreachable": 0,
}


@pytest.fixture
def manual_dir(tmp_path, monkeypatch):
    monkeypatch.setattr(Builder, "EXPECTED", dict(_EXPECTED))
    for name, content in _FILES.items():
        (tmp_path / name).write_text(json.dumps(content))
    np.save(tmp_path / "coco_test_ids.npy", np.array(_ORDER))
    return tmp_path


def _examples(folder, config="eccv"):
    return list(Builder(config=config, data_dir=folder / "tfds")._splits(folder)["test"])


def test_positives_beyond_the_gallery_are_kept_and_named(manual_dir):
    builder = build(Builder, manual_dir, "eccv", manual_dir / "tfds")
    found = {
        (e["direction"].decode(), int(e["query_id"])): [
            list(e[name]) for name in ("positive_ids", "unreachable_ids")
        ]
        for e in builder.as_data_source("test")
    }
    assert found == {
        ("i2t", 9): [[90, 72, 99], [99]],
        ("i2t", 7): [[70], []],
        ("t2i", 91): [[9, 7], []],
    }
    assert builder.info.metadata["unreachable"] == {"i2t": {"9": [99]}, "t2i": {}}


@pytest.mark.slow
def test_the_real_files_hold_what_was_published(real_data, tmp_path):
    builder = build(Builder, real_data / "eccv_caption", "eccv", tmp_path)
    assert builder.info.splits["test"].num_examples == 1261 + 1332
    unreachable = builder.info.metadata["unreachable"]
    assert unreachable == {"i2t": {"575916": [144675], "421999": [467259]}, "t2i": {}}
    lengths = {"i2t": [], "t2i": []}
    for example in builder.as_data_source("test"):
        lengths[example["direction"].decode()].append(len(example["positive_ids"]))
    assert {direction: (min(n), max(n), sum(n)) for direction, n in lengths.items()} == {
        "i2t": (6, 48, 22_550),
        "t2i": (1, 19, 11_279),
    }
    gallery = _examples(real_data / "eccv_caption", "gallery")
    assert [image for image, _ in gallery[:2]] == [391895, 60623]
    assert [example["fold"] for _, example in gallery] == [n // 1000 for n in range(5000)]
