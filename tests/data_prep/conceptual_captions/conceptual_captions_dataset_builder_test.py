"""Conceptual Captions from a small stand-in with dead URLs and broken images."""

import PIL.Image
import pytest
import tensorflow_datasets as tfds

from data_prep.conceptual_captions.conceptual_captions_dataset_builder import Builder


@pytest.fixture
def manual_dir(tmp_path, monkeypatch):
    monkeypatch.setattr(Builder, "EXPECTED", {"train": 6, "validation": 2})
    rows = {"Train_GCC-training.tsv": 6, "Validation_GCC-1.1.0-Validation.tsv": 2}
    for name, count in rows.items():
        lines = [f"caption {row} of naïve things\thttp://x/{row}\n" for row in range(count)]
        (tmp_path / name).write_text("".join(lines), encoding="utf-8")
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


def _build(folder):
    builder = Builder(data_dir=folder / "tfds")
    builder.download_and_prepare(
        download_config=tfds.download.DownloadConfig(manual_dir=str(folder))
    )
    return builder


def test_rows_with_a_good_image_are_kept_under_their_row_number(manual_dir):
    builder = _build(manual_dir)
    captions = {
        split: {
            int(e["image_id"]): e["captions"][0].decode() for e in builder.as_data_source(split)
        }
        for split in ("train", "validation")
    }
    assert captions == {
        "train": {row: f"caption {row} of naïve things" for row in (0, 3, 5)},
        "validation": {10_000_001: "caption 1 of naïve things"},
    }
    for example in builder.as_data_source("train"):
        assert list(example["caption_ids"]) == [example["image_id"]]
    assert builder.info.metadata["left_out"]["train"] == {
        "no image": 1,
        "not an image": 1,
        "truncated image": 1,
    }


def test_short_or_missing_files_are_named(manual_dir):
    path = manual_dir / "Train_GCC-training.tsv"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:5]))
    with pytest.raises(ValueError, match="train: 5 instead of 6"):
        _build(manual_dir)
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"Train_GCC-training\.tsv"):
        _build(manual_dir)
