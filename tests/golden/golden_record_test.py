"""Coverage of a record, and differences between two."""

import contextlib
import importlib
import json
import pathlib
import sys

import pytest

from data_prep import builder_class
from tests.golden import cases, compare, files, record
from xmodal.__main__ import COMMANDS

RECORD = {
    "commands": [{"command": "train", "exit": 0, "stdout": ["python -m xmodal.main: R@1 12.5"]}],
    "files": ["run/config.json", "run/test/metrics.json"],
    "json": {"run/test/metrics.json": {"shapes/i2t/recall@1": 12.5, "undefined": float("nan")}},
    "curves": {"run": {"train/loss": {"1": 2.0}, "perf/examples_per_second": {"1": 30.0}}},
}


def changed(*keys, value):
    """A copy of the record with another value at a place."""
    copy = json.loads(json.dumps(RECORD))
    inside = copy
    for key in keys[:-1]:
        inside = inside[key]
    inside[keys[-1]] = value
    return copy


def found(new, tolerance=1e-6):
    return list(compare.differences(RECORD, new, tolerance))


def test_equal_records_have_no_difference():
    assert found(changed("files", value=RECORD["files"][::-1])) == []


@pytest.mark.parametrize(("value", "differs"), [(2.0 + 1e-7, False), (2.0 + 1e-5, True)])
def test_numbers_differ_beyond_the_tolerance(value, differs):
    new = changed("curves", "run", "train/loss", "1", value=value)
    assert found(new) == ([f"[curves][run][train/loss][1]: 2.0 != {value}"] if differs else [])
    assert found(new, tolerance=1e-4) == []


@pytest.mark.parametrize(
    ("keys", "value", "line"),
    [
        (["commands", 0, "exit"], 1, "[commands][0][exit]: 0 != 1"),
        (["commands", 0, "exit"], 0.0, "[commands][0][exit]: 0 != 0.0"),
        (["commands", 0, "stdout"], [], "[commands][0][stdout]: 1 != 0 entries"),
        (["files"], ["run/config.json"], "[files]: only in OLD: run/test/metrics.json"),
        (["json"], {}, "[json][run/test/metrics.json]: only in OLD"),
        (
            ["json", "run/test/metrics.json", "undefined"],
            1.0,
            "[json][run/test/metrics.json][undefined]: nan != 1.0",
        ),
        (
            ["commands", 0, "stdout", 0],
            "python -m xmodal.main: R@1 12.6",
            "[commands][0][stdout][0]: 'python -m xmodal.main: R@1 12.5' != "
            "'python -m xmodal.main: R@1 12.6'",
        ),
    ],
)
def test_everything_else_is_compared_exactly(keys, value, line):
    assert found(changed(*keys, value=value)) == [line]


def test_speeds_are_ignored():
    assert found(changed("curves", "run", "perf/examples_per_second", "1", value=1.0)) == []


def test_names_of_commands_keys_and_files_may_change(monkeypatch):
    new = changed("commands", 0, "stdout", value=["python -m xmodal train: R@1 12.5"])
    new["files"] = ["run/settings.json", "run/test/metrics.json"]
    new["json"]["run/test/metrics.json"] = {
        "shapes/i2t/r@1": 12.5, "undefined": float("nan"),
    }  # fmt: skip
    assert len(found(new)) == 4
    renamed = {"config.json": "settings.json", "recall@1": "r@1"}
    monkeypatch.setattr(compare, "RENAMED_KEYS", renamed)
    assert found(new) == []


def test_the_command_prints_differences_and_exits_with_1(tmp_path, monkeypatch, capsys):
    for folder, number in (("old", 1.0), ("new", 2.0)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "case.json").write_text(json.dumps({"number": number}))
    (tmp_path / "new" / "other.json").write_text("{}")

    def run(*names):
        monkeypatch.setattr(sys, "argv", ["compare", *(str(tmp_path / name) for name in names)])
        with pytest.raises(SystemExit) as ended:
            compare.main()
        return ended.value.code, capsys.readouterr().out

    assert run("old", "old") == (0, "")
    assert run("old", "new") == (1, "case[number]: 1.0 != 2.0\nother: only in NEW\n")


def test_drawn_names_inside_checkpoints_are_no_difference(tmp_path):
    names = ["run/checkpoints/4/state", "run/frozen", "run/test/metrics.json"]
    for drawn in ("1d0d", "a670"):
        for inside in (f"{names[0]}/d/{drawn}", f"{names[1]}/{drawn}.json", names[2]):
            path = tmp_path / drawn / inside
            path.parent.mkdir(parents=True)
            path.write_text(json.dumps(drawn if drawn in inside else 1))
        found = files.read_folder(tmp_path / drawn, {})
        assert found == {"files": names, "json": {names[2]: 1}}


def test_cases_run_after_those_whose_files_they_read():
    every = cases.make_cases()
    order = record.in_order(every, ["annotate", "pcme_finetuned"])
    assert order == ["data", "quickstart", "evaluate_run", "annotate", "pcme", "pcme_finetuned"]
    assert set(record.in_order(every, list(every))) == set(every)


@pytest.mark.slow
def test_a_small_dataset_is_built_for_every_case(tmp_path):
    configs = builder_class("crisscrossed_shapes").BUILDER_CONFIGS
    recorder = record.Recorder(pathlib.Path(__file__).parents[2], tmp_path)
    assert recorder.record("data", cases.make_cases()["data"]) == [0]
    built = tmp_path / "work" / "data" / "crisscrossed_shapes"
    counts = {path.parent.parent.name: _count(path) for path in built.glob("*/*/dataset_info.json")}
    # A case that finds none builds one of full size, whose images other datasets lack.
    assert counts.keys() == {config.name for config in configs}
    assert counts["images"] == counts["regions"] == {"train": 150, "validation": 25, "test": 25}


def _count(path):
    """The numbers of records of a dataset's splits."""
    splits = json.loads(path.read_text())["splits"]
    return {each["name"]: sum(map(int, each["shardLengths"])) for each in splits}


def test_every_small_config_and_every_command_has_a_case():
    trained = {name.partition(":")[0] for name, *_ in cases.TRAINED.values()}
    small = set()
    for path in pathlib.Path(__file__).parents[2].joinpath("configs").glob("*.py"):
        module = importlib.import_module(f"configs.{path.stem}")
        with contextlib.suppress(AttributeError, TypeError, ValueError):  # It has no such variant.
            module.get_config("quick")
            small.add(path.stem)
    assert len(small) > 20
    assert small <= trained
    run = {argv[0] for argvs in cases.OTHERS.values() for argv in argvs}
    assert run - {"build"} == set(COMMANDS)
    assert {name.split()[0] for name in cases.HELPFUL} == set(COMMANDS)
