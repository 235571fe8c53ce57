"""Commands of an installed wheel, run in an empty folder."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

import xmodal
from xmodal.__main__ import COMMANDS

ROOT = pathlib.Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The folder of an installed wheel, without its dependencies."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    options = ["--no-deps", "--no-build-isolation", "--no-index"]
    source = folder / "source"
    # A copy, because setuptools builds in the folder of the sources.
    for name in ("xmodal", "configs", "data_prep"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.py", "README.md", "pyproject.toml"):
        shutil.copy(ROOT / name, source)
    subprocess.run([*pip, "install", *options, f"--target={folder}/site", source], check=True)
    return folder / "site"


def run(folder, wheel, *command):
    environment = os.environ | {"PYTHONPATH": str(wheel), "PYTHONSAFEPATH": "1"}
    return subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True
    )


@pytest.mark.slow
def test_commands_know_the_configs_that_were_installed(wheel, tmp_path):
    listed = run(tmp_path, wheel, wheel / "bin" / "xmodal", "train", "--list_configs")
    assert listed.returncode == 0, listed.stderr
    rows = dict(line.split(maxsplit=1) for line in listed.stdout.splitlines())
    assert rows["quickstart"].startswith("The multitask dual encoder on the built-in dataset")
    assert "base" not in rows
    version = run(tmp_path, wheel, wheel / "bin" / "xmodal", "evaluate", "--version")
    assert (version.returncode, version.stdout) == (0, f"xmodal {xmodal.__version__}\n")


@pytest.mark.slow
def test_a_config_is_addressed_by_name(wheel, tmp_path):
    train = [wheel / "bin" / "xmodal", "train"]
    # The config and its imports are read; its value is rejected before anything is created.
    refused = run(tmp_path, wheel, *train, "--config=quickstart:i2t", "--config.batch_size=-1")
    assert refused.returncode == 1
    assert "config.batch_size is -1" in refused.stderr
    path = run(tmp_path, wheel, *train, "--config=configs/quickstart.py:i2t")
    assert path.returncode == 1
    assert "No such file or directory: 'configs/quickstart.py'" in path.stderr
    assert not list(tmp_path.iterdir())


# Packages that take a second or more to import, which no help needs.
SLOW = (
    *("flax", "jax", "matplotlib", "optax", "orbax", "pandas", "scipy"),
    *("tensorflow", "tensorflow_datasets"),
)


# Each command in a copy of a process that has imported only what one of them needs.
HELP = f"""
import atexit, os, sys
import xmodal.apps.config_flag
from xmodal.__main__ import COMMANDS, main
for name in sorted(COMMANDS):
    sys.stdout.flush()
    if os.fork() == 0:
        print("==", name)
        atexit.register(lambda: print([each for each in {SLOW} if each in sys.modules]))
        sys.argv = ["xmodal", name, "--help"]
        sys.exit(main())
    assert os.wait()[1] == 0, name
"""


@pytest.mark.slow
def test_help_succeeds_and_imports_nothing_slow():
    shown = subprocess.run(
        [sys.executable, "-c", HELP], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert shown.returncode == 0, shown.stderr
    found = {}
    for said in shown.stdout.split("== ")[1:]:
        name, text = said.split("\n", 1)
        usage, found[name] = text.strip().rsplit("\n", 1)
        assert len(usage) > 100
    assert found == dict.fromkeys(COMMANDS, "[]")


# The protocol of bash, whose function is called as for the TAB key.
COMPLETE = """
eval "$(python -m argcomplete.scripts.register_python_argcomplete xmodal)"
xmodal() { python -m xmodal "$@"; }
for COMP_LINE in "$@"; do
  COMP_POINT=${#COMP_LINE} COMPREPLY=()
  _python_argcomplete xmodal
  echo "${COMPREPLY[*]}"
done
"""


@pytest.mark.slow
def test_a_shell_completes_commands_and_flags(tmp_path):
    lines = {
        "xmodal expo": {"export"},
        "xmodal ": {"train", "search", "word2vec"},
        "xmodal export --": {"--output", "--step"},
        "xmodal search build --im": {"--images"},
        "xmodal evaluate run --fo": {"--follow"},
        "xmodal train --dr": {"--dry_run"},
        "xmodal prepare --": {"--dataset"},
    }
    path = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PATH": path}
    found = subprocess.run(
        ["bash", "-c", COMPLETE, "bash", *lines], cwd=tmp_path, env=environment,
        check=True, capture_output=True, text=True,
    ).stdout.splitlines()  # fmt: skip
    for line, answer in zip(lines, found, strict=True):
        assert lines[line] <= set(answer.split()), line
        typed = line.split(" ")[-1]
        assert all(each.startswith(typed) for each in answer.split()), line
    assert not list(tmp_path.iterdir())
