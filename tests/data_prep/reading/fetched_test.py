"""Samples of tar shards: members with one key are a sample, and none is overwritten."""

import io
import tarfile

import pytest

from data_prep.building.record_counts import LeftOut
from data_prep.reading.fetched import read_tar


def _read(folder, *names, ending=".tar"):
    """Names of the pictures with the lengths of texts, and the ignored members of an archive."""
    path = folder / f"0{ending}"
    with tarfile.open(path, "w:gz" if "gz" in ending.lower() else "w") as archive:
        for name in names:
            member = tarfile.TarInfo(name)
            content = b"{}" if name.lower().endswith(".json") else name.encode()
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    found, left_out = {}, {}
    for item in read_tar(path, "0.tar"):
        if isinstance(item, LeftOut):
            left_out[item.where.removeprefix("0.tar:")] = (item.reason, item.detail)
        else:
            found[item.name.removeprefix("0.tar/")] = (item.read().decode(), item.text.decode())
    return found, left_out


@pytest.mark.parametrize("ending", [".tar", ".TAR", ".tar.gz", ".Tar.GZ", ".tgz"])
def test_a_sample_is_a_picture_with_its_files(tmp_path, ending):
    names = ["a/1.jpg", "a/1.txt", "a/1.json", "b/1.JFIF", "b/1.TXT", "2.png"]
    found, left_out = _read(tmp_path, *names, ending=ending)
    assert found == {
        "a/1.jpg": ("a/1.jpg", "a/1.txt"),
        "b/1.JFIF": ("b/1.JFIF", "b/1.TXT"),
        "2.png": ("2.png", ""),
    }
    assert not left_out


_SEVERAL = "several pictures or texts in a sample"


@pytest.mark.parametrize(
    ("names", "reason", "both"),
    [
        (["1.left.jpg", "1.right.jpg", "1.txt"], _SEVERAL, "1.left.jpg and"),
        (["1.jpg", "1.en.txt", "1.txt"], _SEVERAL, "1.jpg and 1.en.txt"),
        (["1.jpg", "1.a.json", "1.json"], _SEVERAL, "1.a.json and 1.json"),
    ],
)
def test_samples_that_could_be_read_in_two_ways_are_listed(tmp_path, names, reason, both):
    found, left_out = _read(tmp_path, "0.jpg", "0.txt", *names, "9.jpg", "9.txt")
    lost = {name for name in names if name.endswith(".jpg")}
    assert {name for name, (why, _) in left_out.items() if why == reason} == lost
    assert all(both in detail for why, detail in left_out.values() if why == reason)
    assert found == {"0.jpg": ("0.jpg", "0.txt"), "9.jpg": ("9.jpg", "9.txt")}


def test_a_key_that_comes_back_is_listed(tmp_path):
    found, left_out = _read(tmp_path, "1.jpg", "2.jpg", "1.jpg", "1.txt")
    assert found.keys() == {"1.jpg", "2.jpg"}
    assert left_out == {"1.jpg": ("files of a sample are not adjacent", "1.jpg and 1.txt")}
