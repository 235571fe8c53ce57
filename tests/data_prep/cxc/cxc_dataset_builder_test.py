"""CxC from stand-ins of the released files with captions and images, and from the real files."""

import io
import zipfile

import PIL.Image
import pytest

from data_prep.building.record_counts import LeftOut
from data_prep.cxc.cxc_dataset_builder import Builder
from data_prep.cxc.rating_files import RATERS
from tests.data_prep.builds import build

# Captions 11 to 14 describe images 1 to 4; image 4 has no pixels, 3 is truncated, 2 is CMYK.
_HEADERS = {"sts": "caption1,caption2", "sis": "image1,image2", "sits": "caption,image"}
_ROWS = {
    "sts_val": [(11, 12, 4.5, "c2c_cocaption")],
    "sts_test": [(13, 14, 0, "c2c_isim"), (14, 15, 5, "c2c_isim")],
    "sis_val": [(1, 2, 1.96, "i2i_csim"), (2, 1, 2.5, "i2i_csim")],
    "sis_test": [(1, 2, 3, "i2i_csim"), (1, 3, 3, "i2i_csim"), (4, 1, 3, "i2i_csim")],
    "sits_val": [(11, 1, 5, "c2i_original")],
    "sits_test": [(12, 1, 3.1, "c2i_intrasim"), (15, 1, 2, "c2i_intrasim")],
}
_EXPECTED = {
    "sts/validation/c2c_cocaption": 1,
    "sts/test/c2c_isim": 2,
    "sis/validation/i2i_csim": 2,
    "sis/test/i2i_csim": 3,
    "sits/validation/c2i_original": 1,
    "sits/test/c2i_intrasim": 2,
}


def _name(kind, number):
    if kind.startswith("image"):
        return f"COCO_val2014_{number:012d}.jpg"
    return f"COCO_val2014:sentid:{number}"


def _jpeg(mode, width):
    file = io.BytesIO()
    PIL.Image.new(mode, (width, 30)).save(file, "JPEG")
    return file.getvalue()


def _write_ratings(folder):
    for name, rows in _ROWS.items():
        kinds = _HEADERS[name.partition("_")[0]].split(",")
        lines = [f"{','.join(kinds)},agg_score,sampling_method"]
        for left, right, score, method in rows:
            names = map(_name, kinds, (left, right))
            lines.append(f"{','.join(names)},{score},{method}")
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")


@pytest.fixture
def manual_dir(tmp_path, monkeypatch):
    monkeypatch.setattr(Builder, "EXPECTED", _EXPECTED)
    _write_ratings(tmp_path)
    captions = "".join(f"{number},Caption {number}\n" for number in range(11, 15))
    (tmp_path / "captions.csv").write_text(f"caption_id,caption\n{captions}")
    with zipfile.ZipFile(tmp_path / "val2014.zip", "w") as archive:
        archive.writestr(f"val2014/{_name('image', 1)}", _jpeg("RGB", 21))
        archive.writestr(f"val2014/{_name('image', 2)}", _jpeg("CMYK", 22))
        archive.writestr("val2014/000000000003.jpg", _jpeg("RGB", 23)[:-60])
    return tmp_path


def _splits(folder, config, data_dir=None):
    builder = Builder(config=config, data_dir=data_dir or folder / "tfds")
    return {split: list(rows) for split, rows in builder._splits(folder).items()}


def test_rows_are_joined_to_their_images(manual_dir):
    builder = build(Builder, manual_dir, "sis_images", min_kept=0.3)
    shapes = {
        (int(e["left_id"]), int(e["right_id"])): (e["left_image"].shape, e["right_image"].shape)
        for split in ("validation", "test")
        for e in builder.as_data_source(split)
    }
    assert shapes == {
        (1, 2): ((30, 21, 3), (30, 22, 3)),
        (2, 1): ((30, 22, 3), (30, 21, 3)),
    }
    assert builder.info.metadata["left_out"]["test"] == {"no image": 1, "truncated image": 1}


def test_rows_are_joined_to_their_captions(manual_dir):
    rows = _splits(manual_dir, "sts_captions")
    ((_, example),) = rows["validation"]
    assert (example["left_caption"], example["right_caption"]) == ("Caption 11", "Caption 12")
    assert [(row.where, row.reason) for row in rows["test"] if isinstance(row, LeftOut)] == [
        ("sts_test.csv line 3", "no caption")
    ]
    ((_, kept), _) = _splits(manual_dir, "sits_images")["test"]
    assert (kept["left_caption"], kept["right_id"]) == ("Caption 12", 1)
    assert kept["right_image"] == _jpeg("RGB", 21)


def test_scores_of_single_raters_are_stored(manual_dir):
    header, row = (manual_dir / "sts_val.csv").read_text().splitlines()
    (manual_dir / "sts_val_raw.csv").write_text("\n".join([header, *[row] * RATERS]))
    rows = _splits(manual_dir, "sts")
    assert [example["rater_scores"] for _, example in rows["validation"]] == [(4.5,) * RATERS]
    assert [example["rater_scores"] for _, example in rows["test"]] == [(), ()]


def test_the_release_has_five_judgments_of_every_pair():
    assert RATERS * sum(Builder.EXPECTED.values()) == 1_335_475


@pytest.mark.slow
def test_the_real_ratings_have_the_published_structure(real_data, tmp_path):
    twice = {}
    for split, rows in _splits(real_data / "cxc", "sis", tmp_path).items():
        pairs = {(example["left_id"], example["right_id"]) for _, example in rows}
        assert len(pairs) == len(rows)
        twice[split] = sum((b, a) in pairs for a, b in pairs) // 2
    assert twice == {"validation": 2253, "test": 2863}
