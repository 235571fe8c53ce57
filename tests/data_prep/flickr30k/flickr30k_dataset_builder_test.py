"""Flickr30k from small stand-ins, in Karpathy's split and that of Flickr30k Entities."""

import json
import tarfile
import zipfile

import pytest

from data_prep.flickr30k.flickr30k_dataset_builder import Builder
from tests.data_prep.builds import build
from tests.data_prep.img2dataset import jpeg

_KARPATHY = {"train": ["11.jpg", "300.jpg"], "val": ["2.jpg"], "test": ["5.jpg"]}
_ENTITIES = {"train": ["300", "11", "1000"], "val": ["5"], "test": ["2"]}
_NAMES = ["1000.jpg", "11.jpg", "2.jpg", "300.jpg", "5.jpg"]
_EXPECTED = {
    "karpathy": {"train": 2, "validation": 1, "test": 1, "captions": 20},
    "entities": {"train": 3, "validation": 1, "test": 1, "captions": 25},
}


def _caption(name, k):
    return f'Two "naïve" men , {k} of {name} .'


def _write_karpathy(folder):
    names = [(split, name) for split, names in _KARPATHY.items() for name in names]
    images = [
        {
            "imgid": number,
            "sentences": [{"raw": _caption(name, k), "sentid": 5 * number + k} for k in range(5)],
            "split": split,
            "filename": name,
        }
        for number, (split, name) in enumerate(names)
    ]
    source = {"images": images, "dataset": "flickr30k"}
    (folder / "dataset_flickr30k.json").write_text(json.dumps(source))


def _write_entities(folder):
    lines = [f"{name}#{k}\t{_caption(name, k)}\n" for name in _NAMES for k in range(5)]
    (folder / "results_20130124.token").write_text("".join(lines), encoding="utf-8")
    for split, names in _ENTITIES.items():
        (folder / f"{split}.txt").write_text("\n".join(names) + "\n")


@pytest.fixture
def manual_dir(tmp_path, monkeypatch):
    monkeypatch.setattr(Builder, "EXPECTED", _EXPECTED)
    _write_karpathy(tmp_path)
    _write_entities(tmp_path)
    (tmp_path / "flickr30k-images").mkdir()
    for name in _NAMES:
        (tmp_path / "flickr30k-images" / name).write_bytes(jpeg(3 + _NAMES.index(name)))
    return tmp_path


def _examples(builder, split):
    return {int(e["image_id"]): e for e in builder.as_data_source(split)}


def test_karpathys_split_with_and_without_images(manual_dir):
    builder = build(Builder, manual_dir, "images")
    expected = {"train": {0: "11.jpg", 1: "300.jpg"}, "validation": {2: "2.jpg"}}
    for split, names in expected.items():
        examples = _examples(builder, split)
        assert sorted(examples) == sorted(names)
        for image_id, name in names.items():
            example = examples[image_id]
            captions = [caption.decode() for caption in example["captions"]]
            assert captions == [_caption(name, k) for k in range(5)]
            assert list(example["caption_ids"]) == [5 * image_id + k for k in range(5)]
            assert example["image"].shape == (4, 3 + _NAMES.index(name), 3)
    with zipfile.ZipFile(manual_dir / "caption_datasets.zip", "w") as archive:
        archive.write(manual_dir / "dataset_flickr30k.json", "dataset_flickr30k.json")
    (manual_dir / "dataset_flickr30k.json").unlink()
    texts = build(Builder, manual_dir, "captions")
    assert "image" not in texts.info.features
    assert _examples(texts, "test")[3]["captions"][4].decode() == _caption("5.jpg", 4)


def test_the_released_archive_gives_the_same_records(manual_dir):
    expected = build(Builder, manual_dir, "entities").info.metadata["split_hashes"]
    with tarfile.open(manual_dir / "flickr30k-images.tar.gz", "w:gz") as archive:
        archive.add(manual_dir / "flickr30k-images", "flickr30k-images")
    (manual_dir / "flickr30k-images").rename(manual_dir / "unpacked")
    found = build(Builder, manual_dir, "entities", "packed")
    assert found.info.metadata["split_hashes"] == expected
