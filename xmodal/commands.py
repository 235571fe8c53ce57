"""The console commands: each is `python -m` of the module it names."""

import runpy
import sys


def train() -> None:
    """`xmodal-train`: `python -m xmodal.main`."""
    _run("xmodal.main")


def evaluate() -> None:
    """`xmodal-eval`: `python -m xmodal.eval_main`."""
    _run("xmodal.eval_main")


def search() -> None:
    """`xmodal-search`: `python -m xmodal.search`."""
    _run("xmodal.search")


def export() -> None:
    """`xmodal-export`: `python -m xmodal.export`."""
    _run("xmodal.export")


def _run(module: str) -> None:
    # As with `python -m`, configs and datasets in the working directory can be imported.
    sys.path.insert(0, "")
    runpy.run_module(module, run_name="__main__", alter_sys=True)
