"""Archives, arrays and tables that claim or expand to more than a machine has."""

import gzip
import io
import struct
import tarfile
import tracemalloc
import zipfile

import h5py
import numpy as np
import pytest

from data_prep.reading.image_files import open_images
from data_prep.reading.tar_samples import read_tar
from data_prep.reading.text_files import open_archive, read_json
from data_prep.region_features.feature_stores import FeatureStores
from xmodal.core.errors import BadImageError, UnexpectedFilesError
from xmodal.core.untrusted import archives, hdf5
from xmodal.core.untrusted.json_text import parse_json_text
from xmodal.core.untrusted.names import is_inside
from xmodal.core.untrusted.saved_arrays import DAMAGE, load_arrays


@pytest.fixture
def small_bound(monkeypatch):
    """As if a hundred times as much were a gigabyte."""
    monkeypatch.setattr(archives, "most_expanded", lambda packed: 10_000 + packed)
    monkeypatch.setattr(hdf5, "most_expanded", lambda packed: 10_000 + packed)


def _tar(path, *members):
    with tarfile.open(path, "w") as archive:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


@pytest.mark.usefixtures("small_bound")
def test_bombs_stop_before_they_are_unpacked(tmp_path):
    zeros = bytes(100_000)
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.jpg", zeros)
    with pytest.raises(UnexpectedFilesError, match="expands to 100,000 bytes, more than 10,"):
        open_archive(tmp_path / "a.zip")
    np.savez_compressed(tmp_path / "a.npz", features=np.zeros((100, 1000)))
    with pytest.raises(zipfile.BadZipFile, match="expands"):
        load_arrays(tmp_path / "a.npz")
    (tmp_path / "a.json").write_bytes(gzip.compress(zeros))
    with pytest.raises(UnexpectedFilesError, match="expands to more than"):
        read_json(tmp_path / "a.json")
    packed = gzip.compress(_tar(tmp_path / "a.tar", ("a.jpg", zeros)).read_bytes())
    (tmp_path / "b.tar.gz").write_bytes(packed)
    [damage] = read_tar(tmp_path / "b.tar.gz", "b")
    assert "expands to more than" in damage.detail
    with pytest.raises(UnexpectedFilesError, match="expands to more than"):
        open_images(tmp_path, "b")
    (tmp_path / "h5").mkdir()
    with h5py.File(tmp_path / "h5" / "a.h5", "w") as file:
        file.create_dataset("9_features", (100, 1000), "f4", compression="gzip")
    assert "400,000 bytes, more than" in FeatureStores(tmp_path / "h5").read(9)


def test_what_is_no_bomb_is_read(tmp_path):
    np.savez_compressed(tmp_path / "a.npz", features=np.zeros((100, 10_000)))
    with load_arrays(tmp_path / "a.npz") as arrays:
        assert arrays["features"].shape == (100, 10_000)
    lines = b"".join(b"%d\n" % number for number in range(50_000))
    (tmp_path / "a.gz").write_bytes(gzip.compress(lines))
    with (tmp_path / "a.gz").open("rb") as file:
        assert b"".join(archives.open_gzip(file)) == lines


def test_members_that_are_not_there_reserve_no_memory(tmp_path):
    path = _tar(tmp_path / "a.tar", ("1.jpg", b"A"), ("2.jpg", b"B"))
    content = bytearray(path.read_bytes())
    for size in (b"77777777777\0", b"\x80" + struct.pack(">3xQ", 2**60), b"\xff" * 12):
        # The size of the second member: beyond the end, or negative, which leads back.
        content[1024 + 124 : 1024 + 136] = size
        header = content[1024:1536]
        header[148:156] = b" " * 8
        content[1024 + 148 : 1024 + 156] = b"%06o\0 " % sum(header)
        path.write_bytes(content)
        tracemalloc.start()
        found = list(read_tar(path, "a"))
        assert found[-1].reason == "damaged archive"
        try:
            images = open_images(tmp_path, "a")
            if "2.jpg" in images:
                with pytest.raises(BadImageError):
                    images.read("2.jpg")
        except UnexpectedFilesError:
            pass
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
        tracemalloc.stop()


def test_headers_that_lie_are_damage(tmp_path):
    header = io.BytesIO()
    shape = {"descr": "<f4", "fortran_order": False, "shape": (10**9, 10**6)}
    np.lib.format.write_array_header_1_0(header, shape)
    (tmp_path / "a.npy").write_bytes(header.getvalue())
    with pytest.raises(DAMAGE):
        load_arrays(tmp_path / "a.npy")
    with pytest.raises(DAMAGE):
        load_arrays(tmp_path / "a.npy", mmap_mode="r")


@pytest.mark.parametrize(
    "write",
    [
        lambda file, other: file.create_dataset(
            "9_features", (3, 8), "u1", external=[(str(other), 0, 24)]
        ),
        lambda file, other: file.__setitem__("9_features", h5py.ExternalLink(str(other), "/x")),
        lambda file, other: file.__setitem__("9_features", h5py.SoftLink("/nope")),
        lambda file, other: file.create_dataset("9_features", (2,), h5py.string_dtype()),
        lambda file, other: file.create_dataset("9_features", (10**6, 10**6), "f4", chunks=True),
        lambda file, other: file.create_virtual_dataset("9_features", _virtual(other)),
        lambda file, other: file.create_group("9_features"),
    ],
)
def test_hdf5_gives_its_own_numbers_or_a_fault(tmp_path, write):
    (tmp_path / "secret").write_bytes(b"SECRET of another folder")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        write(file, tmp_path / "secret")
    try:
        found = FeatureStores(tmp_path).read(9)
    except UnexpectedFilesError as error:
        found = str(error)
    assert isinstance(found, str)
    assert "SECRET" not in found


def _virtual(other):
    layout = h5py.VirtualLayout((3, 8), "u1")
    layout[:] = h5py.VirtualSource(str(other), "x", (3, 8))
    return layout


def test_json_that_nests_too_deep_is_a_value_error():
    for text in ("[" * 100_000, '{"a":' * 100_000, "9" * 5_000):
        with pytest.raises(ValueError, match=r"deep|digits"):
            parse_json_text(text)
    assert parse_json_text(b'{"a": [1]}') == {"a": [1]}


def test_names_that_leave_their_folder_are_not_found(tmp_path):
    (tmp_path / "images" / "a").mkdir(parents=True)
    (tmp_path / "images" / "a" / "b..c.jpg").write_bytes(b"inside")
    (tmp_path / "other").write_bytes(b"outside")
    images = open_images(tmp_path, "images")
    assert "a/b..c.jpg" in images
    for name in (
        "../other",
        str(tmp_path / "other"),
        "a/../../other",
        "/etc/passwd",
        "a\0b",
        5000 * "x",
    ):
        assert name not in images
        with pytest.raises(BadImageError):
            images.read(name)
    assert not any(map(is_inside, ("..\\other", "C:\\other", "\\\\host\\other", "a/..")))


@pytest.mark.parametrize("opened", [False, True])
def test_a_member_of_an_npz_file_that_is_no_array_is_an_error(tmp_path, opened):
    """NumPy returns its bytes."""
    path = tmp_path / "a.npz"
    np.savez(path, whole=np.arange(3))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("other.npy", b"\x93NUMPX bytes")
    with open(path, "rb") as file, load_arrays(file if opened else path) as arrays:
        assert arrays["whole"].tolist() == [0, 1, 2]
        with pytest.raises(ValueError, match="'other' in it is no array"):
            arrays["other"]
