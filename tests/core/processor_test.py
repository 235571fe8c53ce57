"""The name of the processor."""

import platform

from xmodal.core import processor

LINUX = """\
processor\t: 0
vendor_id\t: AuthenticAMD
cpu family\t: 25
model\t\t: 17
model name\t: AMD EPYC
flags\t\t: fpu vme

processor\t: 1
model name\t: another
"""


def test_the_first_core_names_it(monkeypatch, tmp_path):
    (tmp_path / "cpuinfo").write_text(LINUX)
    monkeypatch.setattr(processor.pathlib, "Path", lambda path: tmp_path / path.split("/")[-1])
    assert processor.describe_processor() == "AMD EPYC, family 25, model 17"
    # Those of ARM have no names.
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nCPU part\t: 0xd0c\n")
    assert processor.describe_processor() == platform.machine()


def test_other_systems_name_their_architecture(monkeypatch, tmp_path):
    monkeypatch.setattr(processor.pathlib, "Path", lambda path: tmp_path / "missing")
    assert processor.describe_processor() == platform.machine()
