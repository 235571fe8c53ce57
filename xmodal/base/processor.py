"""The processor, on which rounding and times depend."""

import pathlib
import platform
import re


def describe_processor() -> str:
    """Returns its name, with family and model where the system tells them.

    Where it tells nothing, the architecture's name.
    """
    try:
        text = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        text = ""
    # Cores follow each other, with an empty line between them.
    core = dict(re.findall(r"^(.+?)\s*: (.*)$", text.partition("\n\n")[0], re.MULTILINE))
    numbers = {"family": core.get("cpu family"), "model": core.get("model")}
    known = [f"{name} {number}" for name, number in numbers.items() if number]
    return ", ".join([core.get("model name", platform.machine()), *known])
