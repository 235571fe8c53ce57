"""Builds with several processes give the same records, counts and hash as a plain build."""

import importlib.util
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import time

import pytest

from data_prep.build import build
from data_prep.building.random_access import RandomAccessBuilder
from data_prep.building.record_parts import PartedRecords, Workers
from data_prep.linked_captions import LinkedRow
from tests.data_prep import web_records
from tests.data_prep.captioned_images import own_folders
from tests.data_prep.fuzzing.contents import photograph
from tests.data_prep.fuzzing.stand_ins import STAND_INS
from tests.data_prep.web_records import TWO_WORKERS
from xmodal.core.errors import UnexpectedFilesError

needs_beam = pytest.mark.skipif(
    importlib.util.find_spec("apache_beam") is None,
    reason="apache-beam is not installed: pip install -e '.[beam]'",
)
_IN_MEMORY = "runner=FnApiRunner"


class Pickling(Workers):
    """Passes everything through bytes, as to other processes, and interleaves the parts."""

    def map(self, function, parts):
        return iter([self._pass(function)(self._pass(part)) for part in parts])

    def keep(self, values):
        return [self._pass(value) for value in values]

    @staticmethod
    def _pass(value):
        return pickle.loads(pickle.dumps(value))


@pytest.fixture
def pickling(monkeypatch):
    """Makes builders read in parts; returns the splits read in this way."""
    init, generator, parted = RandomAccessBuilder.__init__, RandomAccessBuilder._generator, []

    def with_workers(self, **settings):
        init(self, **settings)
        self._workers = Pickling()

    def from_bytes(self, split, records):
        if isinstance(records, PartedRecords):
            parted.append(split)
            read = pickle.loads(pickle.dumps(records.read))
            records = PartedRecords(records.count, read, records.first, records.last)
        return generator(self, split, records)

    def start():
        monkeypatch.setattr(RandomAccessBuilder, "__init__", with_workers)
        monkeypatch.setattr(RandomAccessBuilder, "_generator", from_bytes)
        return parted

    return start


_LINKS = ("conceptual_captions", "pinterest", "sbu")


@pytest.mark.parametrize(
    "stand_in", [each for each in STAND_INS if each.dataset in _LINKS], ids=str
)
def test_parts_give_what_one_pass_gives(stand_in, pickling, monkeypatch, tmp_path):
    for target, value in stand_in.patches.items():
        monkeypatch.setattr(target, value)
    (tmp_path / "files").mkdir()
    stand_in.write(tmp_path / "files", lambda n: photograph(n) if n != 1 else photograph(n)[:99])
    builders = []
    for name in ("plain", "parted"):
        parted = pickling() if name == "parted" else []
        folders = {"data_dir": str(tmp_path / name), "manual_dir": str(tmp_path / "files")}
        builders.append(build(stand_in.dataset, stand_in.config, min_kept=0.0, **folders))
    web_records.assert_equal(*builders)
    assert sorted(parted) == sorted(builders[0].info.splits)


@pytest.mark.parametrize(
    ("layout", "is_parted"),
    [
        (own_folders.web_dataset, True),
        (own_folders.hugging_face, True),
        (own_folders.text_beside, True),
        (own_folders.wide_csv, False),
    ],
)
def test_own_folders_in_parts(layout, is_parted, pickling, tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    layout(folder, own_folders.NUMBERS)
    plain = own_folders.prepare(folder)
    parted = pickling()
    folders = {"data_dir": str(tmp_path / "parted"), "manual_dir": str(folder)}
    web_records.assert_equal(build("captioned_images", "images", **folders), plain)
    assert sorted(parted) == (["test", "train", "validation"] if is_parted else [])


@pytest.fixture
def links(tmp_path, monkeypatch):
    (tmp_path / "files").mkdir()
    web_records.expect(monkeypatch, web_records.write(tmp_path / "files", 120, 31, 10))
    # Workers started by Beam import the modules of this process.
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    return tmp_path / "files"


def _build_links(files, name, **settings):
    folders = {"data_dir": str(files.parent / name), "manual_dir": str(files)}
    return build("conceptual_captions", "images", **folders, **settings)


def test_links_in_parts(links, pickling):
    plain = _build_links(links, "plain")
    counts = plain.info.metadata
    assert set(counts["left_out"]["train"]) >= {"no image", "not an image", "not UTF-8"}
    assert counts["parts"]["train"] == {"damaged archive": 1}
    assert sum(counts["converted"]["train"].values())
    pickling()
    web_records.assert_equal(_build_links(links, "parted"), plain)


@needs_beam
def test_two_workers_of_beam_build_the_same(links):
    plain = _build_links(links, "plain")
    web_records.assert_equal(_build_links(links, "beam", beam_pipeline_options=TWO_WORKERS), plain)


@needs_beam
def test_parts_that_are_done_twice_count_once(links):
    plain = _build_links(links, "plain")
    again = f"{_IN_MEMORY},direct_runner_bundle_repeat=1"
    web_records.assert_equal(_build_links(links, "beam", beam_pipeline_options=again), plain)


@needs_beam
def test_errors_of_workers_are_those_of_the_plain_build(links, monkeypatch):
    options = {"beam_pipeline_options": _IN_MEMORY}
    with pytest.raises(UnexpectedFilesError, match=r"keeps less than 0\.99 (.|\n)*no image 1"):
        _build_links(links, "beam", min_kept=0.99, **options)
    folder = links.parent / "beam" / "conceptual_captions" / "images"
    assert [path.name for path in folder.iterdir()] == ["left_out.csv"]
    for path in (links / "validation").iterdir():
        path.unlink()
    with pytest.raises(UnexpectedFilesError, match="no usable record in split validation"):
        _build_links(links, "beam", **options)
    assert [path.name for path in folder.iterdir()] == ["left_out.csv"]
    numbers = LinkedRow.__init__
    with monkeypatch.context() as patch:
        patch.setattr(
            LinkedRow, "__init__", lambda self, *row: numbers(self, row[0], row[1] // 2, *row[2:])
        )
        with pytest.raises(UnexpectedFilesError, match=r"key \d+ appears twice"):
            _build_links(links, "beam", **options)


@pytest.fixture
def shards(tmp_path):
    (tmp_path / "shards").mkdir()
    # Sixteen shards, so that a worker is busy for a while.
    for shard in range(16):
        (tmp_path / "shards" / f"{shard:02d}").mkdir()
        numbers = range(20 * shard, 20 * shard + 20)
        own_folders.web_dataset(tmp_path / "shards" / f"{shard:02d}", numbers)
    return tmp_path / "shards"


@pytest.fixture
def start(shards):
    """Function that starts a build with two workers; kills it if it still runs at the end."""
    processes = []

    def start_command(name):
        command = [
            *(sys.executable, "-m", "data_prep.build", "--dataset=captioned_images"),
            *("--config=images", f"--manual_dir={shards}", f"--data_dir={shards.parent / name}"),
            f"--beam_pipeline_options={TWO_WORKERS}",
        ]
        output, environment = (
            subprocess.PIPE,
            os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )
        processes.append(
            subprocess.Popen(
                command, env=environment, stdout=output, stderr=subprocess.STDOUT, text=True
            )
        )
        return processes[-1]

    yield start_command
    for process in processes:
        for pid in (*_workers_of(process), process.pid) if process.poll() is None else ():
            os.kill(pid, signal.SIGKILL)
        process.wait()


def _workers_of(process):
    """Beam worker processes that a command has started."""
    found, waiting = [], [process.pid]
    while waiting:
        pid = waiting.pop()
        for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
            waiting += map(int, task.read_text().split())
        line = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
        if line.startswith(sys.executable.encode()) and b"sdk_worker_main" in line:
            found.append(pid)
    return found


@needs_beam
@pytest.mark.slow
@pytest.mark.parametrize("step", [0, 2], ids=["survey", "records"])
def test_a_killed_worker_ends_the_build_and_the_next_one_is_whole(shards, start, monkeypatch, step):
    killed = start("beam")
    folder = shards.parent / "beam"
    while not list(folder.glob(f"own/*/captioned_images/images/incomplete.*/parts/{step}/*")):
        assert killed.poll() is None, killed.stdout.read()
        time.sleep(0.02)
    workers = _workers_of(killed)
    assert len(workers) == 2
    os.kill(workers[0], signal.SIGKILL)
    output, _ = killed.communicate(timeout=45)
    assert killed.returncode == 1
    assert "a Beam worker died" in output
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    folders = {"data_dir": str(folder), "manual_dir": str(shards)}
    again = build("captioned_images", "images", **folders, beam_pipeline_options=TWO_WORKERS)
    web_records.assert_equal(again, own_folders.prepare(shards))
    (prepared,) = (path.name for path in folder.glob("own/*/captioned_images/images/*"))
    assert prepared == str(again.info.version)


@needs_beam
def test_a_table_is_not_built_on_workers(tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    own_folders.long_tsv(folder, list(range(60)))
    folders = {"data_dir": str(tmp_path), "manual_dir": str(folder)}
    with pytest.raises(
        UnexpectedFilesError, match="datasets in shards; those in .* in one process"
    ):
        build("captioned_images", "images", **folders, beam_pipeline_options=_IN_MEMORY)
    assert build("captioned_images", "images", **folders).info.splits


@needs_beam
def test_an_unknown_runner_is_named_with_the_known_ones(shards, tmp_path):
    folders = {"data_dir": str(tmp_path), "manual_dir": str(shards)}
    with pytest.raises(UnexpectedFilesError, match="NoRunner: Unexpected .*FlinkRunner"):
        build("captioned_images", "images", **folders, beam_pipeline_options="runner=NoRunner")
