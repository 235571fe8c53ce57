"""The command that checks prepared datasets, on stand-ins and on the real Clue."""

import json
import pathlib
import sys

import pytest

from data_prep import validate
from data_prep.build import build
from data_prep.checks.figure_rows import DIFFERS, KNOWN, NOTED, OK, PART
from data_prep.clue.clue_dataset_builder import Builder as Clue
from data_prep.flickr8k.flickr8k_dataset_builder import Builder as Flickr8k
from data_prep.published_figures import Known
from tests.data_prep.fuzzing.contents import photograph
from tests.data_prep.fuzzing.stand_ins import STAND_INS

_FIGURES = {
    "images": {"train/records": 2, "validation/records": 1, "test/records": 2},
    "ratings": {"test/rows with rating=expert, method=expert": 1},
}


def _publish(monkeypatch, figures):
    """Sets the published figures of Flickr8k, by config."""
    monkeypatch.setattr(Flickr8k, "published_figures", figures.__getitem__)


def _make(stand_in, folder, images=photograph, **settings):
    with pytest.MonkeyPatch.context() as patch:
        for target, value in stand_in.patches.items():
            patch.setattr(target, value)
        files = folder / "files"
        files.mkdir(exist_ok=True)
        stand_in.write(files, images)
        data_dir = str(folder / "tfds")
        build(
            stand_in.dataset, stand_in.config, data_dir=data_dir, manual_dir=str(files), **settings
        )
    return data_dir


def _stand_in(name):
    return next(stand_in for stand_in in STAND_INS if str(stand_in) == name)


@pytest.fixture(scope="module")
def few_photographs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("flickr8k")
    _make(_stand_in("flickr8k-images"), folder)
    return _make(_stand_in("flickr8k-ratings"), folder)


@pytest.fixture
def validated(monkeypatch, capsys):
    """Runs the command; returns its exit code, and its rows by dataset and by name."""

    def run(*args):
        monkeypatch.setattr(sys, "argv", ["validate", *map(str, args), "--json"])
        capsys.readouterr()  # builds also print
        try:
            validate.main()
            code = 0
        except SystemExit as error:
            code = error.code
        found = json.loads(capsys.readouterr().out)
        assert [entry["differs"] for entry in found] == [
            any(row["verdict"] == DIFFERS for row in entry["rows"]) for entry in found
        ]
        rows = {entry["dataset"]: {row["name"]: row for row in entry["rows"]} for entry in found}
        return code, rows

    return run


def _figures(row):
    return row["found"], row["expected"], row["verdict"]


def test_a_sound_dataset_passes(few_photographs, validated, monkeypatch):
    _publish(monkeypatch, _FIGURES)
    code, rows = validated("--dataset=flickr8k", f"--data_dir={few_photographs}")
    assert code == 0
    assert sorted(rows) == ["flickr8k/images", "flickr8k/ratings"]
    images, ratings = rows["flickr8k/images"], rows["flickr8k/ratings"]
    assert _figures(images["train/records"]) == (2, 2, OK)
    assert _figures(images["train/captions of an image"]) == ("5", None, NOTED)
    assert _figures(images["test/image also in train"]) == (0, 0, OK)
    assert _figures(images["test/images unusable"]) == (0, 0, OK)
    hashes = images["test/hash"]
    assert len(hashes["found"]) == 64
    assert hashes["found"] == hashes["expected"]
    # Ratings refer to images and captions of the test split.
    assert _figures(ratings["test/caption_ids not found"]) == (0, 0, OK)
    assert ratings["test/image_id not found"]["note"] == "of 2 in flickr8k/images"


def test_what_differs_ends_in_one(few_photographs, validated, monkeypatch, capsys):
    figures_of_more = {"images": _FIGURES["images"] | {"test/records": 9, "test/gone": 7}}
    _publish(monkeypatch, figures_of_more)
    arguments = ("--dataset=flickr8k", "--config=images", f"--data_dir={few_photographs}")
    code, rows = validated(*arguments)
    assert code == 1
    assert _figures(rows["flickr8k/images"]["test/records"]) == (2, 9, DIFFERS)
    assert _figures(rows["flickr8k/images"]["test/gone"]) == (0, 7, DIFFERS)
    monkeypatch.setattr(sys, "argv", ["validate", *arguments])
    with pytest.raises(SystemExit):
        validate.main()
    printed = " ".join(capsys.readouterr().out.split())
    assert "test/records 2 9 differs" in printed
    assert "2 differs (not as expected)" in printed


def test_a_shard_with_one_wrong_bit_is_found(tmp_path, validated, monkeypatch):
    _publish(monkeypatch, _FIGURES)
    data_dir = _make(_stand_in("flickr8k-images"), tmp_path)
    (shard,) = pathlib.Path(data_dir).rglob("*test.array_record*")
    content = bytearray(shard.read_bytes())
    used = [place for place, byte in enumerate(content) if byte]  # most of a small shard is empty
    content[used[len(used) // 2]] ^= 16
    shard.write_bytes(content)
    code, rows = validated("--dataset=flickr8k", f"--data_dir={data_dir}")
    assert code == 1
    rows = rows["flickr8k/images"]
    assert rows["test/records read"]["verdict"] == rows["test/hash"]["verdict"] == DIFFERS
    assert "Corrupted" in rows["test/records read"]["note"]
    assert rows["train/hash"]["verdict"] == OK


def test_bad_images_and_copies_across_splits_are_found(tmp_path, validated, monkeypatch):
    _publish(monkeypatch, _FIGURES)
    monkeypatch.setattr(Flickr8k, "CHECK_IMAGES", False)
    # Image 0 is in test, 1 and 4 in train. Only Pillow decodes image 4 without its end.
    contents = {0: photograph(1), 4: photograph(124)[:-2]}
    data_dir = _make(
        _stand_in("flickr8k-images"), tmp_path, lambda n: contents.get(n, photograph(n))
    )
    code, rows = validated("--dataset=flickr8k", f"--data_dir={data_dir}")
    rows = rows["flickr8k/images"]
    assert code == 1
    assert _figures(rows["train/images unusable"]) == (1, 0, DIFFERS)
    assert rows["train/images unusable"]["note"] == "truncated image 1 (first: image 4)"
    assert _figures(rows["test/image also in train"]) == (1, 0, DIFFERS)
    code, rows = validated("--dataset=flickr8k", f"--data_dir={data_dir}", "--skip_images")
    assert rows["flickr8k/images"]["train/images unusable"]["found"] == "-"


def test_what_was_left_out_is_a_part_and_adds_up(tmp_path, validated, monkeypatch):
    _publish(monkeypatch, _FIGURES)
    data_dir = _make(
        _stand_in("flickr8k-images"),
        tmp_path,
        lambda n: b"" if n == 4 else photograph(n),
        min_kept=0.5,
    )
    code, rows = validated("--dataset=flickr8k", f"--data_dir={data_dir}")
    rows = rows["flickr8k/images"]
    assert code == 0
    assert _figures(rows["train/records"]) == (1, 2, PART)
    assert rows["train/records left out"]["note"] == "no bytes 1"
    assert _figures(rows["train/records with those left out"]) == (2, 2, OK)


def test_ids_that_a_part_lacks_are_noted(tmp_path, validated, monkeypatch):
    _publish(monkeypatch, _FIGURES)
    _make(_stand_in("flickr8k-ratings"), tmp_path)
    images = _stand_in("flickr8k-images")
    data_dir = _make(images, tmp_path, lambda n: b"" if n == 2 else photograph(n), min_kept=0.5)
    code, rows = validated("--dataset=flickr8k", "--config=ratings", f"--data_dir={data_dir}")
    rows = rows["flickr8k/ratings"]
    assert code == 0
    lost = rows["test/image_id not found"]
    assert _figures(lost) == (1, None, NOTED)
    assert "which is a part of the published data" in lost["note"]


def test_what_is_not_there_or_damaged_ends_in_two(tmp_path, monkeypatch, capsys):
    def error(*args):
        monkeypatch.setattr(sys, "argv", ["validate", "--dataset=flickr8k", *args])
        with pytest.raises(SystemExit) as caught:
            validate.main()
        return caught.value.code, capsys.readouterr().err

    folder = f"--data_dir={tmp_path / 'tfds'}"
    code, message = error(folder)
    assert code == 2
    assert "no config of flickr8k is prepared" in message
    assert "flickr8k/ratings is not prepared" in error("--config=ratings", folder)[1]
    assert "no config 'pixels'; known: images" in error("--config=pixels", folder)[1]
    _make(_stand_in("flickr8k-images"), tmp_path)
    (description,) = (tmp_path / "tfds").rglob("dataset_info.json")
    description.write_text(description.read_text()[:100])
    code, message = error("--config=images", folder)
    assert code == 2
    assert "(dataset_info.json) of flickr8k/images" in message


@pytest.mark.slow
def test_the_leaks_of_clue_are_known_and_others_are_not(
    real_data, tmp_path, validated, monkeypatch
):
    build("clue", "labels", data_dir=str(tmp_path), manual_dir=str(real_data / "clue"))
    code, rows = validated("--dataset=clue", f"--data_dir={tmp_path}")
    rows = rows["clue/labels"]
    assert code == 0
    assert {name: row["found"] for name, row in rows.items() if row["verdict"] == KNOWN} == {
        "test/picture also in train": 610,
        "test/picture and caption also in train": 38,
        "test/captions also in train": 202,
        "test/picture repeated": 137,
    }
    assert _figures(rows["test/relation Where"]) == (376, 376, OK)
    assert _figures(rows["test_deduplicated/picture also in train"]) == (0, 0, OK)
    # A copy that leaks less is not the published one.
    less = Clue.published_figures("labels") | {"test/picture also in train": Known(611, "")}
    monkeypatch.setattr(Clue, "published_figures", staticmethod(lambda config: less))
    code, rows = validated("--dataset=clue", f"--data_dir={tmp_path}")
    assert code == 1
    assert _figures(rows["clue/labels"]["test/picture also in train"]) == (610, 611, DIFFERS)
