"""A killed build resumes in one or two processes, with the same index as a single run."""

import os
import resource
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import xmodal
from tests.api.tiny_dual_encoder import make_texts, save_run
from tests.short_runs import free_port
from xmodal.api.model import Model
from xmodal.cli import search as command
from xmodal.runs.folder import folder_lock


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


def test_a_killed_build_goes_on_at_the_first_missing_part(files, build, monkeypatch):
    build("whole")
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
        parts = sorted(path.name for path in (files / "index.parts").iterdir())
        assert parts == ["image-00000.npy", "image-00001.npy", "parts.json"]
        assert "2 of 6 parts are already embedded" in build("index")
    assert calls == [8, 8, 8, 8, 6]
    assert _read(files / "index") == _read(files / "whole")
    assert not (files / "index.parts").exists()
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


def test_parts_of_another_build_are_refused(files, build, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(Model, "embed_texts", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            build("index")
    with pytest.raises(SystemExit, match=r"index\.parts has .* different part_size: remove it"):
        build("index", "--part_size=9")
    np.save(files / "features.npy", np.ones((30, 5), np.float32))
    with pytest.raises(SystemExit, match=r"of a build with different weights, images: remove"):
        build("index", "--step=5")
    with pytest.raises(SystemExit, match="--part_size=0; it must be at least 1"):
        build("other", "--part_size=0")


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
        with pytest.raises(SystemExit, match=r"annot (be written: File|write to)"):
            build("index", "--part_size=16")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    build("index", "--part_size=16")
    build("whole")
    one, other = (xmodal.Index.open(files / name) for name in ("index", "whole"))
    for kind, gallery in one.galleries.items():
        np.testing.assert_allclose(gallery.vectors, other.galleries[kind].vectors, atol=1e-6)


def test_damaged_files_are_named(files, build, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(Model, "embed_texts", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            build("index")
    part = files / "index.parts/image-00001.npy"
    whole = part.read_bytes()
    for torn in (b"", whole[: len(whole) // 2], whole.replace(b"(8,", b"(7,")):
        part.write_bytes(torn)
        with pytest.raises(SystemExit, match=r"image-00001\.npy is damaged: .* Remove it and"):
            build("index")
    part.unlink()
    card = (files / "index.parts/parts.json").read_bytes()
    (files / "index.parts/parts.json").write_bytes(card[:20])
    with pytest.raises(SystemExit, match=r"parts\.json is damaged: .* remove .*index\.parts and"):
        build("index")
    (files / "index.parts/parts.json").write_bytes(card)
    build("index")
    build("whole")
    assert _read(files / "index") == _read(files / "whole")


# A process that kills itself when it embeds its second part.
_KILLED = """
    import os, signal, sys
    from xmodal.api.model import Model
    from xmodal.cli.search import main

    embed, calls = Model.embed_images, []

    def until_killed(self, images, **options):
        calls.append(1)
        if len(calls) == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return embed(self, images, **options)

    if os.environ["JAX_PROCESS_ID"] == os.environ.get("KILLED"):
        Model.embed_images = until_killed
    sys.argv[0] = "xmodal.api.search"
    main()
"""


@pytest.mark.slow
def test_two_processes_one_of_them_killed_give_the_index_of_one(files, build):
    build("whole")

    def start(**variables):
        address = f"localhost:{free_port()}"
        together = {"JAX_COORDINATOR_ADDRESS": address, "JAX_NUM_PROCESSES": "2"}
        # A single process has the tests' eight devices, as does each of two.
        together |= {"PYTHONPATH": os.pathsep.join(sys.path)} | variables
        program = [sys.executable, "-c", textwrap.dedent(_KILLED), *_arguments(files, "index")]
        return [
            subprocess.Popen(
                program,
                env=os.environ | together | {"JAX_PROCESS_ID": str(number)},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for number in range(2)
        ]

    pair = start(KILLED="1")
    try:
        assert pair[1].wait(timeout=120) == -signal.SIGKILL
        pair[0].kill()  # It waits for the other process.
        pair[0].wait()
        parts = {path.name for path in (files / "index.parts").glob("*.npy")}
        assert "image-00001.npy" in parts
        assert "image-00003.npy" not in parts
        again = start()
        pair += again
        outputs = [process.communicate(timeout=120)[0] for process in again]
        assert [process.returncode for process in again] == [0, 0], "\n".join(outputs)
    finally:
        for process in pair:
            process.kill()
    assert f"{len(parts)} of 6 parts are already embedded" in outputs[0]
    assert "index in" not in outputs[1]
    assert _read(files / "index") == _read(files / "whole")
