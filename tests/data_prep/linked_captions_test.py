"""Fetched images in every layout, intact and damaged, and how they are matched to rows."""

import io
import tarfile

import numpy as np
import pytest

from data_prep.building.record_counts import LeftOut
from data_prep.reading import fetched_images, tar_samples
from tests.data_prep import img2dataset
from tests.data_prep.img2dataset import NOT_FOUND, jpeg
from xmodal.core.errors import UnexpectedFilesError

# Row 3 has the url of row 1, row 2 is dead.
_URLS = ["http://x/0", "http://x/1", "http://x/2", "http://x/1", "http://x/ü"]


def _rows(images=None):
    images = images or [jpeg(4), jpeg(5), None, jpeg(5), jpeg(8)]
    return [(url, f"caption {n}", images[n]) for n, url in enumerate(_URLS)]


def _join(folder, urls=_URLS, **kwargs):
    """Row -> image bytes, and records left out."""
    found, left_out = {}, []
    index = fetched_images.RowIndex(urls)
    unnamed = {"names": lambda name: ()}
    kwargs = {"urls": index.rows, "where": lambda row: f"list row {row}"} | unnamed | kwargs
    for item in fetched_images.join_rows(fetched_images.read_fetched(folder), len(urls), **kwargs):
        if isinstance(item, LeftOut):
            left_out.append(item)
        else:
            row, image = item
            assert row not in found
            found[row] = image.read()
    return found, left_out


@pytest.mark.parametrize("output_format", ["webdataset", "parquet", "files"])
def test_all_formats_of_img2dataset_give_rows_their_images_by_url(tmp_path, output_format):
    img2dataset.write(tmp_path / "out", _rows(), output_format)
    found, left_out = _join(tmp_path / "out")
    assert found == {0: jpeg(4), 1: jpeg(5), 3: jpeg(5), 4: jpeg(8)}
    assert left_out == [LeftOut("list row 2", "no image", NOT_FOUND)]
    fetched = [i for i in fetched_images.read_fetched(tmp_path / "out") if not i.error]
    assert [item.meta["caption"] for item in fetched] == [f"caption {n}" for n in (0, 1, 3, 4)]


def test_only_the_images_of_wanted_rows_are_read(tmp_path, monkeypatch):
    img2dataset.write(tmp_path / "out", _rows(), "webdataset")
    reads = []
    read = tar_samples._read
    monkeypatch.setattr(
        tar_samples, "_read", lambda file, member: reads.append(member.name) or read(file, member)
    )
    wanted = np.array([True, False, False, False, True])
    found, left_out = _join(tmp_path / "out", wanted=wanted)
    assert found == {0: jpeg(4), 4: jpeg(8)}
    assert not left_out
    assert [name for name in reads if name.endswith(".jpg")] == ["000000.jpg", "000011.jpg"]


def test_a_cut_archive_gives_what_lies_before_the_cut_and_is_listed(tmp_path):
    out, urls = tmp_path / "out", [f"http://x/{n}" for n in range(5)]
    img2dataset.write(out, [(url, "a caption", jpeg(9)) for url in urls], "webdataset", 10)
    path = out / "00000.tar"
    with tarfile.open(path) as archive:
        members = archive.getmembers()
    whole = path.read_bytes()
    third = members[6]  # three members per sample
    cuts = {
        "in the image": (third.offset_data + 50, 2),
        "in the header": (third.offset + 100, 2),
        "before the header": (third.offset, 2),
        "at the end": (members[-1].offset_data + 512, 5),
        "before anything": (0, 0),
    }
    for place, (length, samples) in cuts.items():
        path.write_bytes(whole[:length])
        found, left_out = _join(out, urls)
        assert sorted(found) == list(range(samples)), place
        damage = [item for item in left_out if item.reason == "damaged archive"]
        assert [item.where for item in damage] == ["out/00000.tar"], place
    path.write_bytes(whole[: third.offset] + b"x" * 512 + whole[third.offset + 512 :])
    found, left_out = _join(out, urls)
    assert sorted(found) == [0, 1]
    assert left_out[0] == LeftOut(
        "out/00000.tar",
        "damaged archive",
        f"no valid member at byte {third.offset:,}",
        is_record=False,
    )


def test_a_member_of_an_archive_is_named_by_position_not_by_row(tmp_path):
    with tarfile.open(tmp_path / "00001.tar", "w") as archive:
        member = tarfile.TarInfo("00004.jpg")
        member.size = len(jpeg(4))
        archive.addfile(member, io.BytesIO(jpeg(4)))
    assert _join(tmp_path, names=fetched_images.row_of_name)[0] == {}
    by_name = fetched_images.RowIndex(["00004.jpg"])
    found, _ = _join(tmp_path, names=lambda name: by_name.rows(name.rpartition("/")[2]))
    assert found == {0: jpeg(4)}


def test_loose_images_are_named_by_row_or_as_a_dataset_says(tmp_path):
    folder = tmp_path / "images"
    (folder / "deeper").mkdir(parents=True)
    for name, width in {"0.jpg": 4, "00003.PNG": 5, "3.webp": 6, "7.jpg": 7, "2": 8}.items():
        (folder / name).write_bytes(jpeg(width))
    (folder / "1.html").write_text("404")
    (folder / "deeper" / "4.jpg").write_bytes(jpeg(9))
    found, left_out = _join(folder, names=fetched_images.row_of_name)
    assert found == {0: jpeg(4), 3: jpeg(5), 2: jpeg(8)}
    assert [item.where for item in left_out] == ["list row 1", "list row 4"]
    names = fetched_images.RowIndex(["no.jpg", "deeper/4.jpg", "0.jpg"])
    assert set(_join(folder, _URLS[:3], names=names.rows)[0]) == {1, 2}


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (range(1, 6), r"number 5, but the last row of the list is 4 \(list row 4\), and row 0"),
        ([3, 100], r"number 100, but the last row .* row 0 \(list row 0\) has no image"),
        (range(6), r"number 5, but the last row of the list is 4 \(list row 4\): all images may"),
    ],
    ids=["from 1", "ids", "short list"],
)
def test_numbers_beyond_the_rows_are_an_error(tmp_path, names, shown):
    for name in names:
        (tmp_path / f"{name:03d}.jpg").write_bytes(jpeg(4))
    with pytest.raises(UnexpectedFilesError, match=shown):
        _join(tmp_path, names=fetched_images.row_of_name)
    # Names that are not numbers of rows say nothing about them.
    assert _join(tmp_path)[0] == {}


def test_links_to_folders_are_followed_and_may_form_a_circle(tmp_path):
    elsewhere, folder = tmp_path / "elsewhere", tmp_path / "images"
    elsewhere.mkdir()
    folder.mkdir()
    (elsewhere / "one.jpg").write_bytes(jpeg(4))
    (elsewhere / "back").symlink_to(folder)
    (folder / "link").symlink_to(elsewhere)
    (folder / "two.jpg").write_bytes(jpeg(5))
    read = [item.name for item in fetched_images.read_fetched(folder)]
    assert read == ["two.jpg", "link/one.jpg"]


def test_an_index_finds_rows_by_text_or_bytes():
    texts = [f"http://x/{n % 500}" for n in range(1000)]
    index = fetched_images.RowIndex(texts)
    assert len(index) == 1000
    for n in (0, 137, 499):
        assert index.rows(f" http://x/{n}\n".encode()) == [n, n + 500]
    assert index.rows("http://x/500") == []
    assert fetched_images.RowIndex([]).rows("a") == []
