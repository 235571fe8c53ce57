"""The name of the processor."""

import platform

import pytest

from xmodal.core import processor

LINUX = """\
processor\t: 0
cpu family\t: 25
model\t\t: 17
model name\t: AMD EPYC

processor\t: 1
model name\t: another
"""


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (LINUX, "AMD EPYC, family 25, model 17"),
        ("processor\t: 0\nCPU part\t: 0xd0c\n", platform.machine()),  # ARM.
        (None, platform.machine()),
    ],
)
def test_the_first_core_names_it(monkeypatch, tmp_path, text, name):
    path = tmp_path / "cpuinfo"
    if text is not None:
        path.write_text(text)
    monkeypatch.setattr(processor.pathlib, "Path", lambda _: path)
    assert processor.describe_processor() == name
