"""Conceptual Captions from small stand-ins with dead urls, broken images and broken captions."""

import csv
import gzip

import PIL.Image
import pytest

from data_prep.conceptual_captions.conceptual_captions_dataset_builder import Builder
from tests.data_prep import img2dataset
from tests.data_prep.builds import build
from tests.data_prep.img2dataset import jpeg

_TRAIN, _VALIDATION = "Train_GCC-training.tsv", "Validation_GCC-1.1.0-Validation.tsv"


def _write_lists(folder, train=6, validation=2):
    for name, count in {_TRAIN: train, _VALIDATION: validation}.items():
        lines = [f"caption {row} of naïve things\thttp://x/{row}\n" for row in range(count)]
        (folder / name).write_text("".join(lines), encoding="utf-8")


def _captions(builder, split):
    source = builder.as_data_source(split)
    return {int(e["image_id"]): [c.decode() for c in e["captions"]] for e in source}


@pytest.fixture
def loose_images(tmp_path, monkeypatch):
    monkeypatch.setattr(Builder, "EXPECTED", {"train": 6, "validation": 2})
    _write_lists(tmp_path)
    for folder in ("training", "validation"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "index.html").write_text("not an image of any row")
    picture = PIL.Image.new("RGB", (6, 4))
    picture.save(tmp_path / "training" / "0.jpg")
    picture.save(tmp_path / "training" / "00003.png")
    picture.convert("L").save(tmp_path / "training" / "5.jpg")
    picture.save(tmp_path / "training" / "99.jpg")  # no such row
    (tmp_path / "training" / "1.jpg").write_text("<html>404</html>")
    encoded = (tmp_path / "training" / "0.jpg").read_bytes()
    (tmp_path / "training" / "4.jpg").write_bytes(encoded[: len(encoded) // 2])
    picture.save(tmp_path / "validation" / "1.jpg")
    return tmp_path


def test_rows_with_a_good_image_are_kept_under_their_row_number(loose_images):
    builder = build(Builder, loose_images)
    assert _captions(builder, "train") == {
        row: [f"caption {row} of naïve things"] for row in (0, 3, 5)
    }
    assert _captions(builder, "validation") == {10_000_001: ["caption 1 of naïve things"]}
    for example in builder.as_data_source("train"):
        assert list(example["caption_ids"]) == [example["image_id"]]
    with (builder.data_path / "left_out.csv").open() as file:
        rows = {row["where"]: row["reason"] for row in csv.DictReader(file)}
    assert rows == {
        "training/1.jpg": "not an image",
        "training/4.jpg": "truncated image",
        f"{_TRAIN} line 3": "no image",
        f"{_VALIDATION} line 1": "no image",
    }


def test_one_list_alone_and_packed_shards_below(tmp_path, monkeypatch):
    monkeypatch.setattr(Builder, "EXPECTED", {"train": 6, "validation": 2})
    _write_lists(tmp_path)
    (tmp_path / _VALIDATION).unlink()
    # The first line as in img2dataset's guide.
    (tmp_path / _TRAIN).write_text("caption\turl\n" + (tmp_path / _TRAIN).read_text())
    rows = [(f"http://x/{n}", "another", jpeg(n + 3)) for n in range(6)]
    img2dataset.write(tmp_path / "train" / "shards" / "0", rows[:3], "webdataset")
    img2dataset.write(tmp_path / "train" / "shards" / "1", rows[3:], "webdataset")
    packed = tmp_path / "train" / "shards" / "0" / "00000.tar"
    packed.with_name("00000.tar.gz").write_bytes(gzip.compress(packed.read_bytes()))
    packed.unlink()
    builder = build(Builder, tmp_path)
    expected = {n: [f"caption {n} of naïve things"] for n in range(6)}
    assert _captions(builder, "train") == expected
    assert list(builder.info.splits) == ["train"]
    assert not builder.info.metadata["complete"]


@pytest.mark.parametrize("top", ["0\ta caption\thttp://x/0", "words"])
def test_a_first_line_that_may_shift_the_rows_is_an_error(loose_images, top):
    path = loose_images / _TRAIN
    path.write_text("\n".join([top, *path.read_text().splitlines()[1:], ""]))
    with pytest.raises(ValueError, match=r"line 1 is b'.*neither CAPTION<tab>URL nor the header"):
        build(Builder, loose_images)
