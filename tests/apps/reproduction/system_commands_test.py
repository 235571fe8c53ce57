"""Commands of the results: filled in, and of configs that exist."""

import functools
import importlib.util
import pathlib
import re

import pytest

from xmodal.__main__ import COMMANDS
from xmodal.apps.config_flag import find_config_file
from xmodal.apps.reproduction.entries import read_results
from xmodal.apps.reproduction.reproduce import Reproduction
from xmodal.evals.labels.definitions import definitions_of

WORK = pathlib.Path("work")


@functools.cache
def load(argument):
    path, _, variant = find_config_file(argument).partition(":")
    spec = importlib.util.spec_from_file_location("config_of_results", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.get_config(variant) if variant else module.get_config()


@pytest.mark.slow
def test_every_command_can_be_read(tmp_path):
    """Its placeholders, its command, its config's variant, and the sections that it changes."""
    results = read_results()
    folders = results.find_folders([])
    known = {files.folder for files in results.files.values()}
    folders |= {("labels" if name == "." else name or "minilm"): tmp_path for name in known}
    seen = set()
    for system in results.systems.values():
        for words in Reproduction(results, folders, WORK).commands(system, 0):
            assert words[0] in COMMANDS
            assert not any(re.search(r"\{\w+\}", word) for word in words), words
            named = [word for word in words if word.startswith("--config=")]
            key = (*named, *(word.split("=")[0] for word in words if "--config." in word))
            # The config of `mine` is that of a dataset.
            if not named or key in seen or words[0] == "mine":
                continue
            seen.add(key)
            config = load(named[0].removeprefix("--config="))
            for word in key[1:]:
                section = config
                for part in word.removeprefix("--config.").split(".")[:-1]:
                    section = section[part]
    assert len(seen) > 60


@pytest.mark.slow
def test_commands_compute_every_cell_of_their_rows():
    results, papers = read_results(), {"cxc", "vete", "cmcm"}
    for system in results.systems.values():
        if system.name.split("/")[0] in papers and system.run:
            text = " ".join(system.run)
            evaluators = set(re.findall(r"config\.evals(?:\.|=\"{')(\w+)", text))
            for argument in re.findall(r"--config=(\S+)", text):
                config = load(argument)
                evaluators |= {*config.evals, *definitions_of(config.data.dataset)}
            tags = [tag for row in results.of_system(system.name) for tag in row.statuses]
            needed = {part.split("/")[0] for tag in tags for part in tag.split("+")}
            assert needed <= evaluators, system.name
            assert "cxc" not in needed or "ratings_dir" in text
