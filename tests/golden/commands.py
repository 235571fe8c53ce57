"""Runs a command of a checkout in its own process, and masks what differs between any two runs."""

import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from tests import short_runs

# Logical name -> module of a checkout without `python -m xmodal COMMAND`.
MODULES = {
    "train": "xmodal.main",
    "evaluate": "xmodal.eval_main",
    "convert": "xmodal.convert_weights",
    "export": "xmodal.export",
    "search": "xmodal.search",
    "sweep": "xmodal.sweep",
    "show": "xmodal.show",
    "annotate": "xmodal.annotate",
    "word2vec": "xmodal.word2vec",
} | {
    name: f"xmodal.analysis.{name}"
    for name in (
        "agree", "bradley_terry", "caption_relations", "describe", "label_quality",
        "sample_pairs", "votes",
    )
}  # fmt: skip
# The built-in dataset with 1/40 of its scenes, as in `few_shapes` of tests/conftest.py: no command
# has a flag for its size, and with all scenes a record takes half an hour. Beside the names of
# commands, these lines are all that the record knows of the code.
_BUILD = """
import sys, data_prep
from data_prep.build import build
sizes = {"train": 150, "validation": 25, "test": 25}
builder = data_prep.builder_class("crisscrossed_shapes")
builder.SPLIT_SIZES = sizes
for config in builder.BUILDER_CONFIGS:
    build("crisscrossed_shapes", config.name, data_dir=sys.argv[1])
"""
MASKS = {
    r"\d\d:\d\d:\d\d": "TIME",
    r"\d{4}-\d\d-\d\d": "DATE",
    r"\b\d[\d.,]* ?(ms|s|min|h|seconds?|minutes?|hours?)\b": "DURATION",
    r"[\d.,]+ (\w+ )?(per second|/ ?s\b)": "SPEED",
    r"tfevents\.[\w.-]+": "tfevents",
    r"\bown-[0-9a-f]{16}\b": "own-HASH",
}
# Its log, with times and thread numbers.
_OF_TENSORFLOW = re.compile(r"[IWEF]\d{4} |WARNING: All log messages")
_LIMIT = 600  # seconds


def module_of(command: str, checkout: pathlib.Path) -> list[str]:
    """Returns the arguments of Python for a command."""
    if command == "build":
        return ["-c", _BUILD]
    if (checkout / "xmodal" / "__main__.py").exists():
        return ["-m", "xmodal", command]
    return ["-m", MODULES[command]]


def run_command(
    argv: Sequence[str], checkout: pathlib.Path, data: pathlib.Path, masks: Mapping[str, str]
) -> dict[str, Any]:
    """Runs a command line and returns its exit code and output.

    Args:
      argv: logical name of the command, and its arguments.
      checkout: where the code is; the working directory of the process.
      data: folder of prepared datasets.
      masks: paths of this machine -> names that replace them.
    """
    variables = short_runs.variables(devices=2) | {
        "PYTHONPATH": str(checkout),
        "TFDS_DATA_DIR": str(data),
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "COLUMNS": "100",
        "JAX_COMPILATION_CACHE_DIR": str(data.parent / "compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.1",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    done = subprocess.run(
        [sys.executable, *module_of(argv[0], checkout), *argv[1:]],
        cwd=checkout,
        env=os.environ | variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=_LIMIT,
    )
    record: dict[str, Any] = {"command": mask(" ".join(argv), masks), "exit": done.returncode}
    if argv[-1] == "--help":
        found = re.findall(r"^\s+(?:-\w, )?--(?:\[no\])?(\w+)", done.stdout, re.MULTILINE)
        return record | {"flags": sorted(set(found))}
    record["stdout"] = mask(done.stdout, masks).splitlines()
    if done.returncode:
        record["error"] = mask(_last_lines(done.stderr), masks).splitlines()
    return record


def _last_lines(text: str) -> str:
    """Returns the end of an error message; of a traceback only the error, not the code."""
    lines = text.split("For simplicity, JAX has removed")[0].splitlines()
    lines = [line for line in lines if line.strip("-") and not _OF_TENSORFLOW.match(line)]
    return "\n".join(lines[-1:] if "Traceback" in text else lines[-3:])


def mask(text: str, masks: Mapping[str, str]) -> str:
    """Replaces paths, times and speeds in a text."""
    for path, name in masks.items():
        text = text.replace(path, name)
    for pattern, name in MASKS.items():
        text = re.sub(pattern, name, text)
    return text
