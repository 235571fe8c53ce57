"""Features come back as they were put, or their absence is noticed."""

import multiprocessing
import os
import signal

import numpy as np
import pytest

from xmodal.config import UserError
from xmodal.training import feature_store
from xmodal.training.feature_store import DTYPE, FeatureStore

WIDTH, LONGEST = 3, 7
LENGTHS = np.array([4, 1, 7, 2, 5], np.int32)
IDS = np.array([3, 10, 11, 40, 90], np.int32)
KEY = {"weights": "w", "captions": "c"}


def masks(lengths, padded=LONGEST):
    return np.arange(padded) < np.asarray(lengths)[..., None]


def rows(place):
    """Features of an item; bfloat16 holds these numbers exactly."""
    return (np.arange(LENGTHS[place] * WIDTH).reshape(-1, WIDTH) + 16 * place).astype(DTYPE)


def padded(place, length=LONGEST):
    features = np.full((length, WIDTH), 77, DTYPE)
    features[: LENGTHS[place]] = rows(place)
    return features


def write(folder, batches=((4, 2), (1, 0, 3)), key=KEY):
    with feature_store.writing(str(folder), key, IDS, int(LENGTHS.sum()), WIDTH) as writer:
        for batch in batches:
            features = np.stack([padded(place) for place in batch])
            writer.put(np.array(batch), features, masks(LENGTHS[list(batch)]))


@pytest.fixture
def folder(tmp_path):
    write(tmp_path / "new" / "text")
    return tmp_path / "new" / "text"


def test_every_item_comes_back_under_its_id_padded_with_zeros(folder):
    store = FeatureStore(str(folder))
    places = np.array([[2, 0], [4, 3], [1, 2]])
    found = store.gather(IDS[places], masks(LENGTHS[places], 9).astype(np.int32))
    assert (found.shape, found.dtype) == ((3, 2, 9, WIDTH), DTYPE)
    for index in np.ndindex(places.shape):
        expected = np.zeros((9, WIDTH))
        expected[: LENGTHS[places[index]]] = rows(places[index])
        np.testing.assert_array_equal(found[index].astype(np.float64), expected)
    assert store.key == KEY
    assert (folder / "features.bf16").stat().st_size == LENGTHS.sum() * WIDTH * 2


def test_unknown_items_and_other_lengths_are_refused(folder):
    store = FeatureStore(str(folder))
    for unknown in (2, 12, 91):
        with pytest.raises(KeyError, match=f"no features of item {unknown}"):
            store.gather(np.array([3, unknown]), masks([4, 4]))
    with pytest.raises(ValueError, match="item 10 with another number of tokens"):
        store.gather(np.array([3, 10]), masks([4, 2]))


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_an_interrupted_writer_leaves_nothing(tmp_path, error):
    def dying():
        with feature_store.writing(str(tmp_path / "text"), KEY, IDS, 19, WIDTH) as writer:
            writer.put(np.array([0]), padded(0)[None], masks(LENGTHS[:1]))
            raise error

    with pytest.raises(error):
        dying()
    assert not list(tmp_path.iterdir())


def die_writing(folder):
    with feature_store.writing(folder, KEY, IDS, int(LENGTHS.sum()), WIDTH):
        os.kill(os.getpid(), signal.SIGKILL)


def test_what_a_killed_writer_left_goes_with_the_next(tmp_path):
    folder = str(tmp_path / "text")
    process = multiprocessing.get_context("spawn").Process(target=die_writing, args=(folder,))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".text.")
    (tmp_path / f".text.{32 * '0'}").mkdir()  # Killed even earlier.
    others = {tmp_path / ".text.mine", tmp_path / f".texts.{32 * '0'}"}
    for other in others:
        other.mkdir()
    write(folder)
    assert set(tmp_path.iterdir()) == {tmp_path / "text"} | others


def test_a_living_writer_is_left_alone(tmp_path, caplog):
    with feature_store.writing(
        str(tmp_path / "text"), KEY, IDS, int(LENGTHS.sum()), WIDTH
    ) as first:
        write(tmp_path / "text", key=KEY | {"weights": "of the second"})
        assert "Another run writes" in caplog.text
        for place in range(len(IDS)):
            first.put(np.array([place]), padded(place)[None], masks(LENGTHS[[place]]))
    assert FeatureStore(str(tmp_path / "text")).key["weights"] == "of the second"
    assert [path.name for path in tmp_path.iterdir()] == ["text"]


def test_an_item_that_was_forgotten_is_noticed(tmp_path):
    with pytest.raises(ValueError, match="1 items have no features"):
        write(tmp_path / "text", batches=((4, 2), (1, 0)))
    assert not list(tmp_path.iterdir())


def test_the_first_of_two_writers_wins(folder):
    write(folder, key=KEY | {"weights": "other"})
    assert FeatureStore(str(folder)).key == KEY
    assert list(folder.parent.iterdir()) == [folder]


@pytest.mark.parametrize("name", ["features.bf16", "index.npz", "key.json"])
@pytest.mark.parametrize("short", [True, False])
def test_damaged_features_are_named(folder, name, short):
    path = folder / name
    content = path.read_bytes()
    path.unlink()
    if short:
        path.write_bytes(content[:-5])
    with pytest.raises(UserError, match=f"{folder} holds no complete features.*delete it"):
        FeatureStore(str(folder))


def test_a_full_disk_is_found_before_anything_is_computed(tmp_path, monkeypatch):
    free = feature_store.shutil.disk_usage(tmp_path)._replace(free=int(LENGTHS.sum()) * WIDTH * 2)
    monkeypatch.setattr(feature_store.shutil, "disk_usage", lambda path: free)
    write(tmp_path / "fits")
    monkeypatch.setattr(
        feature_store.shutil, "disk_usage", lambda path: free._replace(free=free.free - 1)
    )
    with pytest.raises(UserError, match=r"need .* GiB .* config.frozen_cache"):
        write(tmp_path / "text")
    assert not (tmp_path / "text").exists()
