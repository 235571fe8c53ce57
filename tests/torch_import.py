"""torch for parity tests."""

import importlib.util

import pytest


def import_torch():
    """torch, or a skip where it is missing or would crash the whole run.

    Its builds for GPUs bring triton, whose LLVM and tensorflow's do not live in one process.
    """
    if importlib.util.find_spec("triton"):
        pytest.skip("triton crashes beside tensorflow: install torch's CPU build")
    return pytest.importorskip("torch")
