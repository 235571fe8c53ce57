"""One or two processes embed the parts of an index; those of a killed build are replaced."""

import os
import resource
import subprocess
import sys

import numpy as np
import pytest

import xmodal
from tests.api.tiny_dual_encoder import make_texts, save_run
from tests.short_runs import free_port
from xmodal.api.model import Model
from xmodal.apps import search as command
from xmodal.train.folder import folder_lock


@pytest.fixture
def files(tmp_path):
    """A run, features and captions, and the arguments to build their index."""
    save_run(str(tmp_path / "run"))
    features = np.random.default_rng(5).normal(size=(30, 5)).astype(np.float32)
    np.save(tmp_path / "features.npy", features)
    (tmp_path / "captions.txt").write_text("\n".join(make_texts(13)))
    return tmp_path


def _arguments(files, output):
    return [
        *("build", f"--model={files / 'run'}", f"--images={files / 'features.npy'}"),
        *(f"--captions={files / 'captions.txt'}", "--part_size=8", f"--output={files / output}"),
    ]


@pytest.fixture
def build(files, monkeypatch, capsys):
    """Builds an index in this process; returns its printed lines."""

    def call(output, *more):
        arguments = ["xmodal.api.search", *_arguments(files, output), *more]
        monkeypatch.setattr(sys, "argv", arguments)
        command.main()
        return capsys.readouterr().out

    return call


def _read(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("change", [[], ["--step=5"], ["--part_size=9"]])
def test_parts_of_a_killed_build_are_replaced(files, build, monkeypatch, change):
    """With the same model, or with another one."""
    build("whole", *change)
    embed, calls = Model.embed_images, []

    def until_killed(self, images, **options):
        calls.append(len(images := list(images)))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return embed(self, images, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Model, "embed_images", until_killed)
        with pytest.raises(SystemExit, match="130"):  # Ctrl-C, as in shells.
            build("index")
    assert not (files / "index").exists()
    assert len(list((files / "index.parts").glob("image-*.npy"))) == 2
    build("index", *change)
    assert _read(files / "index") == _read(files / "whole")
    assert not (files / "index.parts").exists()
    if not change:
        index = xmodal.Index.open(files / "index")
        features, texts = np.load(files / "features.npy"), make_texts(13)
        direct = xmodal.Index.build(index.model, images=features, captions=texts)
        for kind, gallery in direct.galleries.items():
            np.testing.assert_allclose(index.galleries[kind].vectors, gallery.vectors, atol=1e-6)


def test_hits_of_features_are_not_called_lost_pictures(files, build, monkeypatch, capsys):
    build("index")
    page = files / "page.html"
    query = ["query", f"--index={files / 'index'}", make_texts(1)[0], "--find=image", "--top=3"]
    monkeypatch.setattr(sys, "argv", ["search", *query, "--format=html", f"--output={page}"])
    command.main()
    assert capsys.readouterr().out == f"3 hits in {page}\n"


def test_a_second_build_into_the_folder_is_refused(files, build):
    with (
        folder_lock.hold(files / "index.parts"),
        pytest.raises(SystemExit, match=r"index\.parts is being written by process \d+ on"),
    ):
        build("index")
    assert not (files / "index").exists()
    build("index")


@pytest.mark.parametrize("size", [10, 200, 1000])
def test_a_full_disk_is_a_sentence(files, build, size):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        with pytest.raises(SystemExit, match="File too large"):
            build("index", "--part_size=16")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    build("index", "--part_size=16")
    build("whole")
    one, other = (xmodal.Index.open(files / name) for name in ("index", "whole"))
    for kind, gallery in one.galleries.items():
        np.testing.assert_allclose(gallery.vectors, other.galleries[kind].vectors, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("differ", [False, True])
def test_two_processes_give_the_index_of_one(files, build, differ):
    build("whole")
    together = {"JAX_COORDINATOR_ADDRESS": f"localhost:{free_port()}", "JAX_NUM_PROCESSES": "2"}
    program = [sys.executable, "-m", "xmodal", "search", *_arguments(files, "index")]
    program.append("--captions=captions.txt")
    (files / "other").mkdir()
    (files / "other" / "captions.txt").write_text("a star")
    pair = [
        subprocess.Popen(
            program,
            cwd=files / "other" if differ and number else files,
            env=os.environ
            | together
            | {"PYTHONPATH": os.pathsep.join(sys.path), "JAX_PROCESS_ID": str(number)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for number in range(2)
    ]
    try:
        outputs = [process.communicate(timeout=120)[0] for process in pair]
    finally:
        for process in pair:
            process.kill()
    if differ:
        assert any("sees other items or weights" in each for each in outputs), outputs
        assert not (files / "index").exists()
        return
    assert [process.returncode for process in pair] == [0, 0], "\n".join(outputs)
    assert "index in" not in outputs[1]
    assert _read(files / "index") == _read(files / "whole")
