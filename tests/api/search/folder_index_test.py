"""The index of a folder follows its pictures, and a build that was killed goes on."""

import json
import os
import signal
import subprocess
import sys
import time
import types

import numpy as np
import PIL.Image
import pytest

import xmodal
from data_prep.same_text import content_hash
from tests.api.search.pictures_test import draw_noise, save_pictures
from xmodal.api.model import Model
from xmodal.api.search import folder_index
from xmodal.api.search.folder_index import Changes, update
from xmodal.api.search.hubness import TrainingItems
from xmodal.train.folder import folder_lock


@pytest.fixture
def embedded(monkeypatch):
    """Names of the pictures that are embedded."""
    names, embed = [], Model.embed_images

    def spy(self, images, **options):
        images = list(images)
        names.extend(os.path.basename(path) for path in images)
        return embed(self, images, **options)

    monkeypatch.setattr(Model, "embed_images", spy)
    return names


def assert_equals_a_build_from_scratch(index, photos):
    scratch = xmodal.Index.build(index.model, images=folder_index.from_images(str(photos)))
    found, expected = (each.galleries["image"] for each in (index, scratch))
    assert found.names == expected.names
    assert found.left_out == expected.left_out
    np.testing.assert_allclose(found.vectors, expected.vectors, rtol=1e-5, atol=1e-6)


def test_only_new_and_changed_pictures_are_embedded(of_pixels, embedded, tmp_path, monkeypatch):
    monkeypatch.setattr(folder_index, "_PART", 3)
    photos, place, model = tmp_path / "photos", tmp_path / "index", xmodal.load(of_pixels)
    paths = save_pictures(photos, count=8)
    paths[7].write_bytes(b"no picture")
    index, changes = update(photos, place, model)
    assert changes == Changes(8, 0, 0)
    assert set(index.galleries["image"].left_out) == {str(paths[7])}
    assert_equals_a_build_from_scratch(index, photos)

    embedded.clear()
    index, changes = update(photos, place, model)
    assert (changes, embedded) == (Changes(0, 0, 0), [])

    paths[0].unlink()
    PIL.Image.fromarray(draw_noise(9)[7]).save(paths[2])
    PIL.Image.fromarray(draw_noise(9)[8]).save(paths[7])  # It can be read now.
    PIL.Image.fromarray(draw_noise(9)[6]).save(photos / "below" / "next week.png")
    paths[4].write_bytes(b"no picture anymore")
    index, changes = update(photos, place, model)
    assert changes == Changes(1, 3, 1)
    assert sorted(embedded) == ["2.png", "4.png", "7.png", "next week.png"]
    for each in (index, xmodal.Index.open(place, model=model)):
        assert_equals_a_build_from_scratch(each, photos)
    assert not (tmp_path / "index.parts").exists()


def test_a_second_build_of_an_index_is_refused(of_pixels, embedded, tmp_path):
    save_pictures(tmp_path / "photos")
    with (
        folder_lock.hold(tmp_path / "index.parts"),
        pytest.raises(xmodal.UserError, match="index.parts is being written by another process"),
    ):
        update(tmp_path / "photos", tmp_path / "index", xmodal.load(of_pixels))
    assert not embedded


@pytest.mark.slow
def test_a_killed_build_goes_on(of_pixels, embedded, tmp_path):
    photos, place = tmp_path / "photos", tmp_path / "index"
    save_pictures(photos, count=20)
    code = (
        "import sys, xmodal; from xmodal.api.search import folder_index\n"
        "from xmodal.models.encoders import efficientnet\n"
        "efficientnet.STAGES = efficientnet.STAGES[:1]\n"
        "folder_index._PART = 4\n"
        "folder_index.update(sys.argv[1], sys.argv[2], xmodal.load(sys.argv[3]))\n"
    )
    killed = subprocess.Popen([sys.executable, "-c", code, photos, place, of_pixels])
    while not (tmp_path / "index.parts" / "000001").exists():
        assert killed.poll() is None
        time.sleep(0.001)
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    assert not place.exists()
    done = [
        name
        for part in (tmp_path / "index.parts").glob("[!.]*")
        for name in json.loads((part / "image.json").read_text())
    ]
    assert 8 <= len(done) < 20
    index, changes = update(photos, place, xmodal.load(of_pixels))
    assert changes == Changes(20, 0, 0)
    assert len(embedded) == 20 - len(done)
    assert not {os.path.basename(name) for name in done} & set(embedded)
    assert_equals_a_build_from_scratch(index, photos)


def test_a_stop_while_parts_are_removed_does_no_harm(of_pixels, tmp_path, monkeypatch, caplog):
    photos, place, store = (tmp_path / name for name in ("photos", "index", "index.parts"))
    model = xmodal.load(of_pixels)
    save_pictures(photos)

    def stop(folder):
        next(folder.rglob("index.json")).unlink()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(folder_index, "shutil", types.SimpleNamespace(rmtree=stop))
        with pytest.raises(KeyboardInterrupt):
            update(photos, place, model)
    assert store.exists()
    _, changes = update(photos, place, model)
    assert changes == Changes(0, 0, 0)
    assert not caplog.records
    assert not store.exists()


def test_the_pictures_of_the_training_stay_known(of_pixels, embedded, tmp_path, monkeypatch):
    photos, place, model = tmp_path / "photos", tmp_path / "index", xmodal.load(of_pixels)
    paths = save_pictures(photos, count=4)
    known = {content_hash(paths[1].read_bytes())}
    training = TrainingItems(frozenset(known), ["a dog", "a cat"])
    monkeypatch.setattr(folder_index, "read_training_items", lambda model: training)
    assert update(photos, place, model)[0].trained == 1
    paths[0].unlink()
    index, _ = update(photos, place, model)
    gallery = index.galleries["image"]
    assert [gallery.names[row] for row in np.flatnonzero(gallery.trained)] == [str(paths[1])]
    assert gallery.penalties.shape == (3,)


def test_the_command(of_pixels, search, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    photos = tmp_path / "photos"
    paths = save_pictures(photos)
    command = f"--model={of_pixels}", photos, "--no_serve"
    printed = search(*command)
    assert "4 new, 0 changed, 0 gone\nimages: 4 items, exact search\n" in printed
    paths[1].unlink()
    printed = search(*command)
    assert "0 new, 0 changed, 1 gone\nimages: 3 items" in printed
    place = printed.split("index in ")[1].strip()
    assert place.startswith(str(tmp_path / "cache"))
    hits = search("query", f"--index={place}", f"--image={paths[3]}", "--top=1", "--uncorrected")
    assert str(paths[3]) in hits
    (tmp_path / "others").mkdir()
    paths[0].rename(tmp_path / "others" / "1.png")
    with pytest.raises(SystemExit, match="is not an index of .*others: use another --index"):
        search(tmp_path / "others", f"--model={of_pixels}", f"--index={place}", "--no_serve")
    with pytest.raises(SystemExit):
        search("qurey", "a dog", "--no_serve")
    assert "invalid choice: 'qurey'" in capsys.readouterr().err
