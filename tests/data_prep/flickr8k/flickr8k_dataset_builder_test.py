"""Flickr8k from small stand-ins in both published layouts, and from the real files."""

import csv
import gzip
import io
import zipfile

import numpy as np
import PIL.Image
import pytest

from data_prep.flickr8k import flickr8k_files
from data_prep.flickr8k.flickr8k_dataset_builder import Builder
from tests.data_prep.builds import build

_SPLITS = {"train": ["b.jpg", "e.jpg"], "dev": ["d.jpg"], "test": ["a.jpg", "c.jpg"]}
# All files that have captions; the last is in no split.
_NAMES = [*sorted(name for names in _SPLITS.values() for name in names), "f.jpg"]
_EXPECTED = {"images": 6, "train": 2, "validation": 1, "test": 2, "expert": 1}


def _caption(name, number):
    return f"Caption {number} of {name} , naïve # {number}"


def _jpeg(name):
    file = io.BytesIO()
    PIL.Image.new("RGB", (20, 10 + _NAMES.index(name)), (200, 0, 0)).save(file, "JPEG")
    return file.getvalue()


def _write_original(folder):
    keys = [*((name, k) for name in _NAMES for k in range(5))]
    lines = [f"{name}#{k}\t{_caption(name, k)}\n" for name, k in keys]
    lines += [f"2258277193_586949ec62.jpg.1#{k}\tno image\n" for k in range(5)]
    (folder / "Flickr8k.token.txt").write_text("".join(lines), encoding="utf-8")
    for split, names in _SPLITS.items():
        text = "".join(f"{name}\n" for name in names)
        (folder / f"Flickr_8k.{split}Images.txt").write_text(text)
    (folder / "ExpertAnnotations.txt").write_text(
        "a.jpg\tc.jpg#2\t1\t2\t2\nc.jpg\tc.jpg#2\t4\t4\t4\n"
    )
    (folder / "CrowdFlowerAnnotations.txt").write_text("c.jpg\tc.jpg#1\t0.75\t3\t1\n")
    with zipfile.ZipFile(folder / "Flickr8k_Dataset.zip", "w") as archive:
        for name in _NAMES:
            archive.writestr(f"Flicker8k_Dataset/{name}", _jpeg(name))
            archive.writestr(f"__MACOSX/Flicker8k_Dataset/{name}", b"not an image")


def _write_tidy(folder):
    split_of = {name: split for split, names in _SPLITS.items() for name in names}
    with gzip.open(folder / "captions.csv.gz", "wt", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["image", "caption_idx", "split", "caption"])
        for name in _NAMES:
            split = {"dev": "val", None: "none"}.get(split_of.get(name), split_of.get(name))
            rows.writerows([name, k, split, _caption(name, k)] for k in range(5))
    (folder / "expert_annotations.csv").write_text(
        "image,caption_image,caption_idx,rating1,rating2,rating3\n"
        "a.jpg,c.jpg,2,1,2,2\nc.jpg,c.jpg,2,4,4,4\n"
    )
    with gzip.open(folder / "crowdflower_annotations.csv.gz", "wt") as file:
        file.write("image,caption_image,caption_idx,yes_fraction,n_yes,n_no\n")
        file.write("c.jpg,c.jpg,1,0.75,3,1\n")
    images = folder / "Flicker8k_Dataset"
    images.mkdir()
    for name in _NAMES:
        (images / name).write_bytes(_jpeg(name))


def _write_features(folder):
    features = np.arange(6 * 1280, dtype=np.float16).reshape(6, 1280) / 100
    np.savez(folder / "mobilenet_v2_features.npz", files=np.array(_NAMES), features=features)
    return features


@pytest.fixture(params=[_write_original, _write_tidy])
def manual_dir(request, tmp_path, monkeypatch):
    monkeypatch.setattr(Builder, "EXPECTED", _EXPECTED)
    request.param(tmp_path)
    return tmp_path


def test_images_captions_and_stable_ids(manual_dir):
    builder = build(Builder, manual_dir, "images")
    assert builder.info.file_format.value == "array_record"
    assert {k: v.num_examples for k, v in builder.info.splits.items()} == {
        "train": 2,
        "validation": 1,
        "test": 2,
    }
    for split, names in {"train": "be", "validation": "d", "test": "ac"}.items():
        examples = {int(e["image_id"]): e for e in builder.as_data_source(split)}
        assert sorted(examples) == ["abcdef".index(name) for name in names]
        for image_id, example in examples.items():
            name = _NAMES[image_id]
            assert example["image"].shape == (10 + image_id, 20, 3)
            assert list(example["caption_ids"]) == [5 * image_id + k for k in range(5)]
            captions = [caption.decode() for caption in example["captions"]]
            assert captions == [_caption(name, k) for k in range(5)]


def test_ratings_leave_out_experts_on_own_captions(manual_dir):
    examples = list(build(Builder, manual_dir, "ratings").as_data_source("test"))
    expert, crowd = sorted(examples, key=lambda example: example["rating"] != b"expert")
    assert expert["rating"] == b"expert"
    assert (expert["left_id"], expert["right_id"]) == (5 * 2 + 2, 0)
    assert expert["score"] == np.float32(5 / 3)
    assert list(expert["rater_scores"]) == [1, 2, 2]
    assert crowd["rating"] == b"crowd"
    assert (crowd["left_id"], crowd["right_id"], crowd["score"]) == (5 * 2 + 1, 2, 0.75)


@pytest.mark.slow
def test_the_real_files_hold_what_was_published(real_data, tmp_path):
    builder = build(Builder, real_data / "flickr8k", "features", tmp_path)
    assert [s.num_examples for s in builder.info.splits.values()] == [6000, 1000, 1000]
    names = sorted(flickr8k_files.read_captions(real_data / "flickr8k").texts)
    with np.load(real_data / "flickr8k" / "mobilenet_v2_features.npz") as archive:
        assert archive["files"].tolist() == names
        features = archive["features"]
    test = builder.as_data_source("test")
    ids = []
    for row in range(0, 1000, 50):
        np.testing.assert_array_equal(test[row]["image"], features[test[row]["image_id"]])
        ids += list(test[row]["caption_ids"])
    assert len(set(ids)) == 100
    assert 0 <= min(ids) <= max(ids) < 40_455


def _names(builder, split):
    return "".join(sorted("abcdef"[e["image_id"]] for e in builder.as_data_source(split)))


def test_one_caption_per_image_and_training_on_all_but_the_test_images(manual_dir):
    features = _write_features(manual_dir)
    builder = build(Builder, manual_dir, "features_one_caption")
    assert {split: _names(builder, split) for split in builder.info.splits} == {
        "train": "bdef",  # f is in no split
        "test": "ac",
    }
    for example in builder.as_data_source("train"):
        image_id = example["image_id"]
        assert [x.decode() for x in example["captions"]] == [_caption(_NAMES[image_id], 0)]
        assert list(example["caption_ids"]) == [5 * image_id]
        np.testing.assert_array_equal(example["image"], features[image_id])


def test_images_of_which_any_caption_is_a_sentence_of_a_test_are_left_out(manual_dir):
    _write_features(manual_dir)
    with pytest.raises(FileNotFoundError, match="sts"):
        build(Builder, manual_dir, "features_one_caption_unseen")
    # The fourth caption of b spelled differently, the first of c, which is a test image, and a
    # part of one of d.
    sentences = ["caption 3 of b.jpg naïve 3", _caption("c.jpg", 0), "Caption 1 of d.jpg"]
    folder = manual_dir / "sts" / "2014"
    folder.mkdir(parents=True)
    (folder / "images.test.tsv").write_text("".join(f"3\t{s}\tanother\n" for s in sentences))
    builder = build(Builder, manual_dir, "features_one_caption_unseen")
    assert _names(builder, "train") == "def"
    assert _names(builder, "test") == "ac"
    assert builder.info.metadata["images_of_semeval_sts"] == 1
