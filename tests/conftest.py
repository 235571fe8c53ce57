"""Every test sees eight virtual CPU devices, so that sharded code is tested with shards."""

import functools
import gc
import logging
import os
import pathlib
import sys
import tempfile

import pytest

from tests import short_runs
from tests.browser import chromium  # noqa: F401, a fixture

os.environ.update(short_runs.variables(devices=8))
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    # One cache of compiled functions for processes that share programs and enable it. A
    # worker keeps its programs in memory (`shared_programs`): to write them would take longer than
    # to compile those that another one needs as well. A folder that is named here is kept, so that
    # the next tests compile less.
    _compiled = tempfile.TemporaryDirectory(prefix="compiled")
    os.environ["JAX_COMPILATION_CACHE_DIR"] = _compiled.name
    os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# torch's GPU builds include triton, whose LLVM aborts a process that has loaded tensorflow's. No
# test needs it, and torch works without it.
sys.modules.setdefault("triton", None)
# What collecting the tests imports lives on.
gc.disable()


def pytest_collection_finish():
    """Collects less garbage, and compiles equal programs once."""
    # Imported modules and traces of JAX are millions of objects that live, so that most collections
    # free nothing.
    gc.freeze()
    gc.enable()
    gc.set_threshold(50_000, 20, 20)
    if "jax" in sys.modules:
        from tests import shared_programs

        shared_programs.share()


# A worker whose compiled functions take more memory forgets them after each file.
_MEMORY = 4 * 2**30


@pytest.fixture(scope="module", autouse=True)
def _forget_compiled_functions():
    """Frees compiled functions when they take gigabytes.

    Until then, the small operations of all files, each of which compiles for 30 ms, are reused.
    """
    yield
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    if "jax" in sys.modules and pages * os.sysconf("SC_PAGE_SIZE") > _MEMORY:
        from tests import shared_programs
        from xmodal.core.reused_memory import return_freed_memory

        sys.modules["jax"].clear_caches()
        shared_programs.PROGRAMS.clear()
        return_freed_memory()  # Otherwise it would count again.


@pytest.fixture(scope="session")
def real_data() -> pathlib.Path:
    """The folder of downloaded files that XMODAL_TEST_DATA names, or a skip without it."""
    folder = os.environ.get("XMODAL_TEST_DATA")
    if not folder:
        pytest.skip("XMODAL_TEST_DATA does not name a folder of downloaded files")
    if not pathlib.Path(folder).is_dir():
        pytest.fail(f"XMODAL_TEST_DATA is {folder}, which is no folder")
    return pathlib.Path(folder)


@pytest.fixture(scope="session")
def few_shapes(tmp_path_factory):
    """A TFDS folder with crisscrossed_shapes, reduced to 1/40 of its scenes."""
    import data_prep
    from data_prep.build import build

    folder = str(tmp_path_factory.mktemp("few_shapes"))
    sizes = {"train": 150, "validation": 25, "test": 25}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data_prep.builder_class("crisscrossed_shapes"), "SPLIT_SIZES", sizes)
        names = "images ratings coherence rated_captions matches objects regions"
        for config in names.split():
            build("crisscrossed_shapes", config, data_dir=folder)
    return folder


@pytest.fixture(scope="module")
def saved_run_dir(few_shapes, tmp_path_factory):
    """The folder of a tiny run with three checkpoints, see `tests.saved_run`."""
    from tests.saved_run import make_config, save_run

    return save_run(make_config(few_shapes), tmp_path_factory.mktemp("run"))


@pytest.fixture
def own_flags():
    """Resets flags set by a command line after the test."""
    from absl import flags
    from absl.testing import flagsaver

    # The saver removes flags that it has not seen, so those of readers must exist before.
    import xmodal.apps.sweep.__main__
    import xmodal.data.pipeline
    import xmodal.main  # noqa: F401

    # Parsed flags set it, which also affects messages that other tests read.
    level = logging.getLogger("absl").level
    with flagsaver.flagsaver():
        known = set(flags.FLAGS)
        yield
        # A config flag stores its overrides as separate flags.
        for name in set(flags.FLAGS) - known:
            delattr(flags.FLAGS, name)
    flags.FLAGS.unparse_flags()
    logging.getLogger("absl").setLevel(level)


@pytest.fixture
def command(run_command):
    """Runs `python -m xmodal.main ARGUMENTS...`; returns the exit code and the printed text."""
    from xmodal import main

    return functools.partial(run_command, main)


@pytest.fixture
def run_command(own_flags, monkeypatch, capsys):
    """Runs a command with arguments; returns the exit code and the text of standard error."""
    from absl import flags

    from xmodal.apps import config_flag

    def run(module, *arguments):
        monkeypatch.setattr(sys, "argv", [module.__name__, *arguments])
        # As in `__main__`; undone by `own_flags`.
        flags.mark_flag_as_required("config")
        with pytest.raises(SystemExit) as ended:
            config_flag.run(module.main)
        code = ended.value.code
        # The interpreter prints a string passed to sys.exit, and exits with code 1.
        said = capsys.readouterr().err + (code if isinstance(code, str) else "")
        return (1 if isinstance(code, str) else code or 0), said

    return run


@pytest.fixture
def few_stages(monkeypatch):
    """Two of EfficientNet's stages, for runs of a few steps; other tests cover the towers."""
    from xmodal.models.encoders import efficientnet

    monkeypatch.setattr(efficientnet, "STAGES", efficientnet.STAGES[:2])


@pytest.fixture
def quick_draws(monkeypatch):
    """Runs draw their first state array by array, see `tests.drawing`."""
    from tests import drawing
    from xmodal.train import start

    monkeypatch.setattr(start, "create_state", drawing.create_state)


@pytest.fixture
def without_evaluation(monkeypatch):
    """Runs evaluate nothing, neither on the way nor at the end, for tests of training alone."""
    from xmodal.train import loop
    from xmodal.train.evaluation.run_evaluation import RunEvaluation

    monkeypatch.setattr(RunEvaluation, "run_state", lambda *arguments: {})
    monkeypatch.setattr(loop, "evaluate_best", lambda *arguments: [])


@pytest.fixture
def fast_compilation(few_stages, monkeypatch):
    """Few stages and one device, for tests in which a whole step takes a minute to compile."""
    import jax

    from xmodal.core import mesh as mesh_lib

    one_device = mesh_lib.make_mesh(jax.devices()[:1])
    monkeypatch.setattr(mesh_lib, "make_mesh", lambda *_: one_device)
