"""A user's folder in every layout, and faulty folders."""

import io
import pathlib
import tarfile

import numpy as np
import PIL.Image
import pytest
import tensorflow_datasets as tfds

from data_prep.prepared import read_columns
from tests.data_prep.captioned_images import own_folders as folders
from tests.data_prep.captioned_images.own_folders import NUMBERS, prepare
from xmodal.core.errors import UnexpectedFilesError


def contents(builder):
    """Split -> pixels and captions of its pictures."""
    return {
        split: {
            (
                np.asarray(PIL.Image.open(io.BytesIO(image)).convert("RGB")).tobytes(),
                *(text.decode() for text in texts),
            )
            for image, texts in zip(*_images_and_captions(builder, split), strict=True)
        }
        for split in builder.info.splits
    }


def _images_and_captions(builder, split):
    columns = read_columns(builder, split, ["captions"])
    source = builder.as_data_source(split, decoders={"image": tfds.decode.SkipDecoding()})
    return [record["image"] for record in source], columns["captions"]


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """The pictures and captions as written, in the split of one layout."""
    folder = tmp_path_factory.mktemp("expected") / "files"
    folder.mkdir()
    folders.wide_csv(folder, NUMBERS)
    found = contents(prepare(folder))
    written = {
        (
            np.asarray(PIL.Image.open(io.BytesIO(folders.picture(n)))).tobytes(),
            *folders.captions(n),
        )
        for n in NUMBERS
    }
    assert set().union(*found.values()) == written
    assert sum(map(len, found.values())) == 30
    assert min(map(len, found.values())) >= 2
    assert len(found["train"]) > 15
    return found


@pytest.mark.parametrize("layout", folders.LAYOUTS, ids=lambda layout: layout.__name__)
def test_every_layout_gives_the_same_records_in_the_same_splits(layout, expected, tmp_path, capfd):
    folder = tmp_path / "files"
    folder.mkdir()
    layout(folder, NUMBERS)
    builder = prepare(folder)
    assert contents(builder) == expected
    said = capfd.readouterr().err
    assert "30 with 2 captions, 60 in all\n" in said
    assert "by content" in said
    assert "left out  nothing" in said
    assert builder.info.metadata["understood"] in said
    page = (pathlib.Path(builder.data_dir_root) / "preview.html").read_text()
    assert page.count("<img") == 20
    assert folders.captions(1)[0] in page


def test_a_folder_that_changed_is_another_dataset(tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    folders.wide_csv(folder, NUMBERS)
    before = prepare(folder)
    assert prepare(folder).data_dir == before.data_dir
    table = folder / "all.csv"
    table.write_text(table.read_text().replace("picture 3,", "a photo of 3,"))
    after = prepare(folder)
    assert after.data_dir != before.data_dir
    hashes = [each.info.metadata["split_hashes"].items() for each in (before, after)]
    assert len(hashes[0] - hashes[1]) == 1


def test_a_split_column_is_kept_and_a_missing_one_taken_out_of_train(tmp_path, capfd):
    folder = tmp_path / "files"
    folder.mkdir()
    folders.write_images(folder, NUMBERS)
    rows = [[folders.name(n), f"caption {n}", "Test" if n < 9 else "training"] for n in NUMBERS]
    folders.write_csv(folder / "all.csv", [["image", "caption", "split"], *rows])
    builder = prepare(folder)
    texts = {
        split: {
            t.decode() for ts in read_columns(builder, split, ["captions"])["captions"] for t in ts
        }
        for split in builder.info.splits
    }
    assert texts["test"] == {f"caption {n}" for n in range(9)}
    assert len(texts["validation"]) >= 2
    assert "validation out of train by content" in capfd.readouterr().err
    (folder / "captioned_images.json").write_text('{"split": "none"}')
    assert prepare(folder).info.splits["test"].num_examples != 9


def test_ratings_belong_to_the_split_of_both_sides(tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    folders.write_images(folder, NUMBERS)
    splits = ["train"] * 10 + ["val"] * 10 + ["test"] * 10
    rows = [[folders.name(n), f"caption {n}", splits[n]] for n in NUMBERS]
    folders.write_csv(folder / "all.csv", [["image", "caption", "split"], *rows])
    assert not prepare(folder, "ratings").info.splits
    ratings = [
        ["caption 20", "p020.png", 5],
        ["images/p021.png", "caption 22", 1.5],
        ["P025.png", "images\\p026.PNG", 3],  # Other spellings, as in the table of captions.
        ["caption 10", "p011.png", 4],
        ["caption 10", "p020.png", 4],
        ["caption 99", "p020.png", 4],
    ]
    folders.write_csv(folder / "ratings.csv", [["left", "right", "score"], *ratings])
    builder = prepare(folder, "ratings", min_kept=0)
    # Ids are in the order of names, and every image has one caption.
    test = read_columns(builder, "test", ["rating", "left_id", "right_id", "score"])
    assert sorted(zip(*(values.tolist() for values in test.values()), strict=True)) == [
        (b"sis", 25, 26, 3),
        (b"sits", 20, 20, 5),
        (b"sits", 22, 21, 1.5),
    ]
    assert builder.info.splits["validation"].num_examples == 1
    folders.write_csv(
        folder / "ratings.csv", [["left", "right", "score"], ["caption 1", "caption 2", "x"]]
    )
    with pytest.raises(UnexpectedFilesError, match="line 2: no rated pair, .*score 'x'"):
        prepare(folder, "ratings")


def test_copies_and_shared_captions_stay_in_one_split(tmp_path, capfd):
    folder = tmp_path / "files"
    folder.mkdir()
    folders.write_images(folder, NUMBERS)
    rows = folders.rows()
    for n in NUMBERS:
        (folder / f"copy{n}.png").write_bytes(folders.picture(n))
        rows.append([f"copy{n}.png", f"another view of {n}"])
    rows += [["p011.png", "the very same words"], ["p022.png", "The very same words!"]]
    folders.write_csv(folder / "all.csv", [["image", "caption"], *rows])
    builder = prepare(folder)
    stored = folders.stored_pictures(builder)
    split_of = {name.removeprefix("images/"): split for name, (split, _) in stored.items()}
    assert all(split_of[folders.name(n)] == split_of[f"copy{n}.png"] for n in NUMBERS)
    assert split_of["p011.png"] == split_of["p022.png"]
    assert len(set(split_of.values())) == 3
    said = capfd.readouterr().err
    assert "60 copies or images with a shared caption are kept together" in said


def test_a_row_that_does_not_fit_ends_the_build_unless_it_may_be_missing(tmp_path, capfd):
    folder = tmp_path / "files"
    folders.write_images(folder, NUMBERS)
    rows = folders.rows(["p001.png", ""], ["missing.png", "nothing to see"], ["", "whose image?"])
    folders.write_csv(folder / "all.csv", [["image", "caption"], *rows])
    with pytest.raises(UnexpectedFilesError, match=r"files/all.csv line 32: empty caption; cor"):
        prepare(folder)
    assert not list((tmp_path / "files_tfds").rglob("*.array_record*"))
    builder = prepare(folder, min_kept=0)
    assert len(folders.stored_pictures(builder)) == 30
    left_out = {"empty caption": 1, "no image": 2}
    assert builder.info.metadata["left_out"]["train"] == left_out
    assert "left out  no image 2, empty caption 1\n" in capfd.readouterr().err
    assert "all.csv line 33,no image" in (builder.data_path / "left_out.csv").read_text()


def _tar(folder, rows):
    for shard in range(2):
        with tarfile.open(folder / f"0000{shard}.tar", "w") as archive:
            for key, (n, text) in enumerate(rows[shard::2]):
                for ending, content in {"png": folders.picture(n), "txt": text.encode()}.items():
                    member = tarfile.TarInfo(f"{key}.{ending}")
                    member.size = len(content)
                    archive.addfile(member, io.BytesIO(content))


def test_samples_with_the_same_content_are_one_picture(tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    rows = [(n, f"{n}, seen by {part}") for part in "abc" for n in range(12)]
    _tar(folder, [*rows, (3, "3, seen by a")])
    builder = prepare(folder)
    found = sorted(sorted(texts) for _, texts in folders.stored_pictures(builder).values())
    assert found == sorted([f"{n}, seen by {part}" for part in "abc"] for n in range(12))
    ids = [
        number
        for split in builder.info.splits
        for each in read_columns(builder, split, ["caption_ids"])["caption_ids"]
        for number in each.tolist()
    ]
    assert sorted(ids) == list(range(3 * 12))


def test_a_damaged_shard_ends_the_build(tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    _tar(folder, [(n, f"of {n}") for n in range(12)])
    shard = folder / "00000.tar"
    shard.write_bytes(shard.read_bytes()[: shard.stat().st_size // 3])
    with pytest.raises(UnexpectedFilesError, match=r"00000\.tar: damaged archive"):
        prepare(folder)
