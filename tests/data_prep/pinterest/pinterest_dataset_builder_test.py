"""Pinterest40M's released part from small stand-ins for its lists."""

import numpy as np
import pytest

from data_prep.pinterest.pins import read_objects
from data_prep.pinterest.pinterest_dataset_builder import Builder
from tests.data_prep import img2dataset
from tests.data_prep.builds import build
from tests.data_prep.img2dataset import jpeg
from tests.data_prep.pinterest import python2_arrays

_FILES = {"train": range(2), "validation": range(2, 3), "test": range(3, 4)}
_PINS = 4


def _pin(file, place):
    number = 1_000_000 * (file + 1) + place
    return {
        "image_name": f"pin_image_{number:09d}.jpg",
        "url": f"http://media-cache.pinimg.com/{number}.jpg",
        "sentences": [f"Pencil drawing {place} of an owl", "naïve hibou", "an owl"][: place + 1],
    }


@pytest.fixture
def manual_dir(tmp_path, monkeypatch):
    monkeypatch.setattr(Builder, "FILES", _FILES)
    monkeypatch.setattr(Builder, "EXPECTED", {"pin_2016_v1_0000.npy": _PINS})
    lists = tmp_path / "pinterest_multimodal_2016_v1"
    lists.mkdir()
    for file in range(4):
        pins = [_pin(file, place) for place in range(_PINS)]
        python2_arrays.write(lists / f"pin_2016_v1_{file:04d}.npy", pins)
    return tmp_path


def test_pins_of_the_toolbox_and_of_img2dataset(manual_dir):
    images = manual_dir / "images"
    images.mkdir()
    for file in range(4):
        for place in range(1, _PINS):
            (images / _pin(file, place)["image_name"]).write_bytes(jpeg(4 + place))
    builder = build(Builder, manual_dir, "images")
    assert {k: v.num_examples for k, v in builder.info.splits.items()} == {
        "train": 6,
        "validation": 3,
        "test": 3,
    }
    examples = {int(e["image_id"]): e for e in builder.as_data_source("test")}
    assert sorted(examples) == [4_000_001, 4_000_002, 4_000_003]
    example = examples[4_000_002]
    assert [caption.decode() for caption in example["captions"]] == _pin(3, 2)["sentences"]
    # The sentences of the preceding pins count, with or without an image.
    assert list(example["caption_ids"]) == [(3 << 24) + 3 + k for k in range(3)]
    assert example["image"].shape == (4, 6, 3)
    assert builder.info.metadata["left_out"]["train"] == {"no image": 2}

    images.rename(manual_dir / "before")
    pins = [_pin(file, place) for file in range(4) for place in range(_PINS)]
    img2dataset.write(images, [(pin["url"], "", jpeg(4)) for pin in pins], "webdataset", 10)
    builder = build(Builder, manual_dir, "one_caption")
    first = [(f"Pencil drawing {place} of an owl", place) for place in range(_PINS)]
    found = [
        (e["captions"][0].decode(), e["image_id"] % 10) for e in builder.as_data_source("test")
    ]
    assert sorted(found) == first
    assert {len(e["caption_ids"]) for e in builder.as_data_source("train")} == {1}


class _Attack:
    def __reduce__(self):
        return (print, ("the pickle ran code",))


def test_a_pickle_runs_no_code(tmp_path, capsys):
    path = tmp_path / "pins.npy"
    np.save(path, np.array([_Attack()]), allow_pickle=True)
    assert len(read_objects(path)) == 1
    assert capsys.readouterr().out == ""
