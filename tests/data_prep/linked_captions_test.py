"""How fetched images in every layout, intact and damaged, are matched to the rows of a list."""

import io
import tarfile

import numpy as np
import pytest

from data_prep.building.record_counts import LeftOut
from data_prep.linked_captions import LinkedRow, LinkList, linked_records
from data_prep.reading import fetched
from tests.data_prep import img2dataset
from tests.data_prep.img2dataset import NOT_FOUND, jpeg
from xmodal.core.errors import UnexpectedFilesError

# Row 3 has the url of row 1, row 2 is dead.
_URLS = ["http://x/0", "http://x/1", "http://x/2", "http://x/1", "http://x/ü"]


class _Links(LinkList):
    NAMED_BY_ROW = False

    def __init__(self, urls, names=()):
        self._urls_of_rows, self._names = urls, names

    def __len__(self):
        return len(self._urls_of_rows)

    def __getitem__(self, row):
        name = self._names[row] if self._names else ""
        return LinkedRow(f"list row {row}", row, self._urls_of_rows[row], [(row, "a text")], name)


def _links(*args, **attributes):
    return type("_Named", (_Links,), attributes)(*args)


def _rows():
    images = [jpeg(4), jpeg(5), None, jpeg(5), jpeg(8)]
    return [(url, f"caption {n}", images[n]) for n, url in enumerate(_URLS)]


def _join(folder, links=None, **options):
    """Row -> image bytes, and records left out."""
    found, left_out = {}, []
    for item in linked_records(links or _Links(_URLS), folder, **options):
        if isinstance(item, LeftOut):
            left_out.append(item)
        else:
            assert item[0] not in found
            found[item[0]] = item[1]["image"].read()
    return found, left_out


@pytest.mark.parametrize("output_format", ["webdataset", "parquet", "files"])
def test_all_formats_of_img2dataset_give_rows_their_images_by_url(tmp_path, output_format):
    img2dataset.write(tmp_path / "out", _rows(), output_format)
    found, left_out = _join(tmp_path / "out")
    assert found == {0: jpeg(4), 1: jpeg(5), 3: jpeg(5), 4: jpeg(8)}
    assert left_out == [LeftOut("list row 2", "no image", NOT_FOUND)]


def test_only_the_images_of_wanted_rows_are_read(tmp_path, monkeypatch):
    img2dataset.write(tmp_path / "out", _rows(), "webdataset")
    reads, read = [], fetched.read_member_at
    monkeypatch.setattr(
        fetched,
        "read_member_at",
        lambda file, member: reads.append(member.name) or read(file, member),
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
    cuts = {third.offset_data + 50: 2, third.offset + 100: 2, third.offset: 2, 0: 0}
    for length, samples in cuts.items():
        path.write_bytes(whole[:length])
        found, left_out = _join(out, _Links(urls))
        assert sorted(found) == list(range(samples))
        damage = [item for item in left_out if item.reason == "damaged archive"]
        assert [(item.where, item.is_record) for item in damage] == [("out/00000.tar", False)]


def test_loose_images_are_named_by_row_or_as_a_dataset_says(tmp_path):
    folder = tmp_path / "images"
    (folder / "deeper").mkdir(parents=True)
    for name, width in {"0.jpg": 4, "00003.PNG": 5, "3.webp": 6, "7.jpg": 7, "2": 8}.items():
        (folder / name).write_bytes(jpeg(width))
    (folder / "deeper" / "4.jpg").write_bytes(jpeg(9))
    with tarfile.open(folder / "00001.tar", "w") as archive:  # Its names are no row numbers.
        member = tarfile.TarInfo("00004.jpg")
        member.size = len(jpeg(4))
        archive.addfile(member, io.BytesIO(jpeg(4)))
    found, left_out = _join(folder, _links(_URLS, NAMED_BY_ROW=True))
    assert found == {0: jpeg(4), 3: jpeg(5), 2: jpeg(8)}
    assert [item.where for item in left_out] == ["list row 1", "list row 4"]
    names = _links(_URLS[:3], ["no.jpg", "4.jpg", "00004"], NAMED_BY_FILE=True)
    assert _join(folder, names)[0] == {1: jpeg(9), 2: jpeg(4)}


@pytest.mark.parametrize("names", [range(1, 6), [3, 100], range(6)])
def test_numbers_beyond_the_rows_are_an_error(tmp_path, names):
    for name in names:
        (tmp_path / f"{name:03d}.jpg").write_bytes(jpeg(4))
    with pytest.raises(UnexpectedFilesError, match=r"list row 4: all images may be shifted"):
        _join(tmp_path, _links(_URLS, NAMED_BY_ROW=True))
    # Names that are not numbers of rows say nothing about them.
    assert _join(tmp_path)[0] == {}
