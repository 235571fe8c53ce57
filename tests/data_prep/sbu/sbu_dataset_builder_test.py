"""SBU Captioned Photos from small stand-ins for the published files."""

import pytest

from data_prep.sbu.sbu_dataset_builder import Builder
from tests.data_prep import img2dataset
from tests.data_prep.builds import build
from tests.data_prep.img2dataset import jpeg

_COUNT = 20
_URLS = [
    f"http://static.flickr.com/27{n:02d}/43850589{n:02d}_b0f291553e.jpg" for n in range(_COUNT)
]


@pytest.fixture
def manual_dir(tmp_path, monkeypatch):
    monkeypatch.setattr(Builder, "EXPECTED", {"rows": _COUNT})
    monkeypatch.setattr(Builder, "HELD_OUT", 4)
    (tmp_path / "SBU_captioned_photo_dataset_urls.txt").write_text("\n".join(_URLS) + "\n")
    captions = "".join(f"My dog {n} , in front of it\n" for n in range(_COUNT))
    (tmp_path / "SBU_captioned_photo_dataset_captions.txt").write_text(captions)
    return tmp_path


def _ids(builder):
    return {
        split: sorted(int(e["image_id"]) for e in builder.as_data_source(split))
        for split in ("train", "validation", "test")
    }


def test_splits_depend_on_the_urls_and_not_on_the_images(manual_dir):
    rows = [(url, "x", jpeg(4 + n)) for n, url in enumerate(_URLS)]
    img2dataset.write(manual_dir / "images", rows, "files")
    builder = build(Builder, manual_dir)
    complete = _ids(builder)
    assert {split: len(ids) for split, ids in complete.items()} == {
        "train": 12,
        "validation": 4,
        "test": 4,
    }
    assert sorted(n for ids in complete.values() for n in ids) == list(range(_COUNT))
    for example in builder.as_data_source("test"):
        number = int(example["image_id"])
        assert example["captions"] == [f"My dog {number} , in front of it".encode()]
        assert list(example["caption_ids"]) == [number]
        assert example["image"].shape == (4, 4 + number, 3)

    # Another downloader, which fetched fewer images: files named as in the url, or by line.
    (manual_dir / "images").rename(manual_dir / "before")
    (manual_dir / "images").mkdir()
    lost = {complete["train"][0], complete["test"][1]}
    for n, url in enumerate(_URLS):
        if n not in lost:
            name = url.rpartition("/")[2] if n % 2 else f"{n:07d}.jpg"
            (manual_dir / "images" / name).write_bytes(jpeg(4 + n))
    fewer = _ids(build(Builder, manual_dir, data_dir="fewer"))
    assert fewer == {split: sorted(set(ids) - lost) for split, ids in complete.items()}
