"""Commands of an installed wheel, run in an empty folder."""

import os
import pathlib
import shutil
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

import xmodal
from tests.apps.annotate.small_studies import CAPTIONS, sts_units
from xmodal.__main__ import COMMANDS
from xmodal.apps.annotate.study_file import StudySettings, create

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
def test_the_configs_and_the_ledger_are_in_the_wheel(wheel, tmp_path):
    listed = run(tmp_path, wheel, wheel / "bin" / "xmodal", "train", "--list_configs")
    assert listed.returncode == 0, listed.stderr
    rows = dict(line.split(maxsplit=1) for line in listed.stdout.splitlines())
    assert "  clip/vit_b32 " in run(tmp_path, wheel, wheel / "bin" / "xmodal", "reproduce").stdout
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
    assert "configs/quickstart.py does not exist; --config=quickstart:i2t is" in path.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_config_of_ones_own_stands_beside_the_installed_ones(wheel, tmp_path):
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "mine.py").write_text(
        '"""Mine."""\n\nfrom configs import quickstart\n\n\n'
        "def get_config():\n    config = quickstart.get_config()\n"
        "    config.batch_size = -2\n    return config\n"
    )
    train = [wheel / "bin" / "xmodal", "train"]
    listed = run(tmp_path, wheel, *train, "--list_configs").stdout
    assert {"mine", "quickstart"} <= {line.split()[0] for line in listed.splitlines()}
    for name in ("mine", "configs/mine.py"):
        refused = run(tmp_path, wheel, *train, "--config", name)
        assert "config.batch_size is -2" in refused.stderr


@pytest.mark.slow
def test_pages_of_annotation_are_in_the_wheel(wheel, tmp_path):
    create(tmp_path / "study", StudySettings(), sts_units(2), CAPTIONS, [])
    serve = ["-m", "xmodal", "annotate", "serve", f"--study={tmp_path}/study", "--port=0"]
    environment = os.environ | {"PYTHONPATH": str(wheel), "PYTHONSAFEPATH": "1"}
    with subprocess.Popen(
        [sys.executable, *serve], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            address = process.stdout.readline().split()[-1]
            with urllib.request.urlopen(f"{address}/static/style.css") as response:
                assert b"--accent" in response.read()
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(address)
            assert "Open the link that you were given" in refused.value.read().decode()
        finally:
            process.kill()


@pytest.mark.slow
def test_help_lists_every_command(wheel, tmp_path):
    shown = run(tmp_path, wheel, "-m", "xmodal", "--help")
    assert shown.returncode == 0, shown.stderr
    listed = {line.split()[0] for line in shown.stdout.splitlines() if line.startswith("  ")}
    assert listed == set(COMMANDS)
    refused = run(tmp_path, wheel, "-m", "xmodal", "trane")
    assert refused.returncode == 1
    assert "'trane' is not a command" in refused.stderr


# Packages that take a second or more to import, which no help needs.
SLOW = (
    *("flax", "jax", "matplotlib", "optax", "orbax", "pandas", "scipy"),
    *("tensorflow", "tensorflow_datasets"),
)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_help_succeeds_and_imports_nothing_slow(name):
    code = (
        "import atexit, sys\n"
        f"atexit.register(lambda: print([each for each in {SLOW} if each in sys.modules]))\n"
        f"sys.argv = ['xmodal', {name!r}, '--help']\n"
        "from xmodal.__main__ import main\n"
        "main()"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert shown.returncode == 0, shown.stderr
    usage, imported = shown.stdout.strip().rsplit("\n", 1)
    assert len(usage) > 100
    assert imported == "[]"


def test_a_config_is_asked_for():
    ended = subprocess.run(
        [sys.executable, "-m", "xmodal", "train"], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    assert ended.stderr.startswith("Error: --config is missing. --list_configs lists those that")
