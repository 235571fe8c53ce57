"""The processor, on which rounding and run times depend."""

import pathlib
import platform
import re


def describe_processor() -> str:
    """Returns the processor's name, family and model; else that of the architecture."""
    path = pathlib.Path("/proc/cpuinfo")
    first = path.read_text(encoding="utf-8").partition("\n\n")[0] if path.exists() else ""
    core = dict(re.findall(r"^(.+?)\s*: (.*)$", first, re.MULTILINE))
    if "cpu family" not in core:
        return core.get("model name", platform.machine())
    return "{model name}, family {cpu family}, model {model}".format_map(core)
