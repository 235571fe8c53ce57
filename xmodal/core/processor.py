"""The processor, on which rounding and run times depend."""

import pathlib
import platform
import re


def describe_processor() -> str:
    """Returns the processor's name, family and model, as far as the system reports them.

    Without a name, it is that of the architecture.
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
