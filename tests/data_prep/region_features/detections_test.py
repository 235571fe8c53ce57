"""Any number of regions, in the files written by common detectors."""

import base64
import csv
import json

import numpy as np
import pytest

from data_prep.region_features.feature_stores import open_features
from data_prep.region_features.region_features_dataset_builder import Builder
from tests.data_prep.builds import build
from xmodal import data
from xmodal.core.errors import UnexpectedFilesError

# COCO id -> Karpathy split, folder and number of regions.
_IMAGES = {
    9: ("train", "train2014", 3),
    42: ("restval", "val2014", 12),
    73: ("val", "val2014", 1),
    391895: ("test", "val2014", 5),
}
_CHANNELS = 2048


def _features(image_id):
    generator = np.random.default_rng(image_id)
    return generator.random((_IMAGES[image_id][2], _CHANNELS), np.float32) * 30


def _name(image_id):
    return f"COCO_{_IMAGES[image_id][1]}_{image_id:012d}"


def _boxes(image_id):
    return np.arange(4 * _IMAGES[image_id][2], dtype=np.float32).reshape(-1, 4)


def _bottom_up_tsv(folder, images):
    """tools/generate_tsv.py of peteanderson80/bottom-up-attention; one file per GPU."""
    names = ["image_id", "image_w", "image_h", "num_boxes", "boxes", "features"]
    for part in range(2):
        with (folder / f"trainval_resnet101.tsv.{part}").open("w", newline="") as file:
            writer = csv.DictWriter(file, delimiter="\t", fieldnames=names)
            for image_id in images[part::2]:
                writer.writerow(
                    {
                        "image_id": image_id,
                        "image_w": 640,
                        "image_h": 480,
                        "num_boxes": _IMAGES[image_id][2],
                        "boxes": base64.b64encode(_boxes(image_id)).decode(),
                        "features": base64.b64encode(_features(image_id)).decode(),
                    }
                )


def _npz_per_image(folder, images):
    """extract_features.py of MILVLG/bottom-up-attention.pytorch, with its pickled `info`."""
    for image_id in images:
        info = {"image_id": _name(image_id), "objects_id": np.zeros(3), "attrs_conf": [0.5]}
        np.savez_compressed(
            folder / _name(image_id),
            x=_features(image_id),
            bbox=_boxes(image_id),
            num_bbox=_IMAGES[image_id][2],
            image_h=480,
            image_w=640,
            info=info,
        )


def _npz_self_critical(folder, images):
    """scripts/make_bu_data.py of ruotianluo/self-critical.pytorch: cocobu_att/ID.npz."""
    (folder / "cocobu_att").mkdir()
    for image_id in images:
        np.savez_compressed(folder / "cocobu_att" / str(image_id), feat=_features(image_id))


_WRITERS = {
    "bottom-up tsv": _bottom_up_tsv,
    "npz": _npz_per_image,
    "npz self-critical": _npz_self_critical,
}


@pytest.mark.parametrize("layout", _WRITERS)
def test_every_layout_gives_the_features_of_every_image(tmp_path, layout):
    images = list(_IMAGES)[::-1]
    _WRITERS[layout](tmp_path, images)
    readers = open_features(tmp_path)
    assert 7 not in readers
    for image_id in images:
        found = readers[image_id]()
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, _features(image_id))


def _write_karpathy(folder):
    records = [
        {
            "filepath": part,
            "filename": f"{_name(image_id)}.jpg",
            "split": split,
            "cocoid": image_id,
            "sentences": [
                {"raw": f"caption {k} of {image_id}", "sentid": 10 * image_id + k} for k in range(6)
            ],
        }
        for image_id, (split, part, _) in _IMAGES.items()
    ]
    (folder / "dataset_coco.json").write_text(json.dumps({"images": records}))


@pytest.fixture
def manual_dir(tmp_path, monkeypatch):
    monkeypatch.setitem(
        Builder.EXPECTED, "coco_detections", {"train": 2, "validation": 1, "test": 1}
    )
    _write_karpathy(tmp_path)
    (tmp_path / "features").mkdir()
    return tmp_path


def test_regions_and_captions_are_joined_and_padded_in_batches(manual_dir):
    _bottom_up_tsv(manual_dir / "features", list(_IMAGES))
    builder = build(Builder, manual_dir, "coco_detections")
    found = {int(e["image_id"]): e for e in builder.as_data_source("train")}
    assert sorted(found) == [9, 42]
    assert found[42]["image"].dtype == np.float16
    np.testing.assert_array_equal(found[42]["image"], _features(42).astype(np.float16))
    assert list(found[42]["caption_ids"]) == [420 + k for k in range(6)]
    (test,) = builder.as_data_source("test")
    assert [caption.decode() for caption in test["captions"]] == [
        f"caption {k} of 391895" for k in range(5)
    ]


def test_vinvl_has_boxes_and_tags_which_follow_in_batches(manual_dir, monkeypatch):
    monkeypatch.setitem(Builder.EXPECTED, "coco_vinvl", {"train": 2, "validation": 1, "test": 1})
    rows = {i: np.full((_IMAGES[i][2], 2054), i % 100, np.float32) for i in _IMAGES}
    tags = {9: ["of", "caption", "of"], 42: [], 73: ["of"], 391895: ["caption"]}
    found = {i: [{"class": name, "conf": 0.5} for name in names] for i, names in tags.items()}
    found[9] = {"image_h": 480, "objects": found[9]}  # Some releases have it so.
    lines = [f"{i}\t{len(x)}\t{base64.b64encode(x).decode()}" for i, x in rows.items()]
    (manual_dir / "features/features.tsv").write_text("\n".join(lines))
    lines = [f"{i}\t{json.dumps(objects)}" for i, objects in found.items()]
    (manual_dir / "features/predictions.tsv").write_text("\n".join(lines[:-1]))
    with pytest.raises(UnexpectedFilesError, match="no usable record in split test"):
        build(Builder, manual_dir, "coco_vinvl")  # Its image has no tags.
    (manual_dir / "features/predictions.tsv").write_text("\n".join(lines))
    build(Builder, manual_dir, "coco_vinvl")
    config = {
        "dataset": "region_features",
        "config": "coco_vinvl",
        "data_dir": str(manual_dir / "tfds"),
        "image": {"max_regions": 10, "tags": True},
        "text": {"vocabulary_size": 60, "max_length": 12},
    }
    (batch,) = data.train_batches(
        config, split="train", seed=0, batch_size=2, first_step=0, total_steps=1
    )
    split = data.eval_split(config, split="train")
    (images,) = split.images(4)
    spec = data.batch_spec(config, 2)["image_tags"]
    assert spec.shape == (2, 11)
    assert spec.dtype == images["image_tags"].dtype
    (ids,), mask = data.load_tokenizer(config).encode(["of caption of"])
    words = ids[1 : mask.sum()].tolist()  # With [SEP].
    for columns in (batch, images):
        for image_id, image, ids in zip(
            columns["image_id"], columns["image"], columns["image_tags"], strict=True
        ):
            np.testing.assert_array_equal(image[0], rows[int(image_id)][0])
            expected = words if image_id == 9 else []
            assert ids.tolist() == expected + [-1] * (11 - len(expected))


def test_features_that_cannot_be_used_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="has no image features: .* convert HDF5"):
        open_features(tmp_path)
    _npz_self_critical(tmp_path, [9])
    _bottom_up_tsv(tmp_path, [9])
    np.testing.assert_array_equal(open_features(tmp_path)[9](), _features(9))
