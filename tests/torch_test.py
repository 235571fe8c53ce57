"""torch and tensorflow work in the same test process."""

import importlib.util

import pytest


def test_triton_is_never_imported(tmp_path, monkeypatch):
    """Parity tests run with every build of torch; see `conftest`."""
    (tmp_path / "triton.py").write_text("raise SystemExit('loads a second LLVM')")
    monkeypatch.syspath_prepend(tmp_path)
    assert importlib.util.find_spec("triton") is None
    torch = pytest.importorskip("torch")
    with pytest.raises(ImportError):
        import triton  # noqa: F401
    torch.nn.functional.linear(torch.ones(1, 2), torch.ones(3, 2))
