"""Settings that come with the weights a run starts from, or from the run itself when it resumes.

Weights determine the meaning of their inputs: the keywords of the layers, the tokenizer and its
vocabulary, the scaling of pixels. What a config leaves unset (left out, `None`, "", or 0 for
`vocab_size` and `size`) is taken from the weights; any other value is an error that shows both.
"""

import itertools
import os
from collections.abc import Mapping
from typing import Any

import ml_collections
from absl import logging
from etils import epath

from xmodal.core import processes
from xmodal.core.config import read
from xmodal.core.errors import UserError
from xmodal.data.text.published_merges import is_packaged
from xmodal.data.text.text_config import SUBWORDS, WORD_SETTINGS, TextConfig
from xmodal.data.text.tokenizer_files import read_vocabulary
from xmodal.pretrained.model_folder import SIDES, read_model
from xmodal.train.folder import run_folder
from xmodal.train.initialization import from_word_vectors
from xmodal.train.sections import InitConfig
from xmodal.train.weights_settings import WeightsSettings, named_weights, of_own_run


def inherit(
    config: ml_collections.ConfigDict, run_dir: str | None = None, *, level: int = logging.INFO
) -> ml_collections.ConfigDict:
    """Returns a config with all settings that weights determine.

    No weights are read, unless `init_from.model` names a published CLIP or SigLIP, which is
    converted once; the config then names the converted folder.

    Args:
      config: the root.
      run_dir: the run's folder. A run with checkpoints resumes as it was started and needs no
        other folder. None for a model that is not trained.
      level: logging level of the messages about settings that were filled in.

    Raises:
      UserError: a run, tower or file is missing, incomplete or damaged, or contradicts the config.
    """
    config = config.copy_and_resolve_references()
    _check_sections(config)
    if run_dir and run_folder.steps(run_dir):
        own = of_own_run(run_dir)
        _fill(config, own, logging.DEBUG)
        given = config.data.get("text") and config.data.text.get("vocabulary")
        # The run may have been moved without the file from which it was started.
        is_lost = given and not (is_packaged(given) or epath.Path(given).exists())
        if own.vocabulary and (not given or is_lost or _same_entries(given, own.vocabulary)):
            config.data.text.vocabulary = own.vocabulary
        return config
    _convert_published(config)
    source = read(InitConfig, "config.init_from", config.get("init_from", {}))
    from_word_vectors.check_file(source, bool(config.model.get("text")))
    if source.model and not any(config.model.get(side) for side in SIDES):
        _take_model(config, source.model, level)
    for weights in named_weights(config, source):
        _fill(config, weights, level)
        if wrong := _contradictions(config, weights):
            lines = "".join(f"  {line}\n" for line in wrong)
            raise UserError(
                f"The config contradicts {weights.name}:\n{lines}Leave these unset (None; '' for "
                "a name or path) to use the values that came with the weights, or start from "
                "other weights."
            )
    for side in SIDES:
        section = config.model.get(side)
        if section and section.get("encoder") and section.encoder.get("name") == "":
            raise UserError(
                f"config.model.{side}.encoder has no name: name the folder of a tower in "
                f"config.init_from.towers.{side}, or an encoder."
            )
    return config


def _check_sections(config: ml_collections.ConfigDict) -> None:
    """Raises an error for a value in place of a section that is changed before it is read."""
    _need(config, "config", "model", "data")
    for side in SIDES:
        if side not in config.model:
            raise UserError(f"config.model.{side} is missing; set it to None for no such side.")
        if config.model[side] is not None:
            _need(config.model, "config.model", side)
            _need(config.model[side], f"config.model.{side}", "encoder")
            given = (part for part in ("head", "projection") if config.model[side].get(part))
            _need(config.model[side], f"config.model.{side}", *given)
    tasks = config.get("tasks")
    for name in tasks if isinstance(tasks, ml_collections.ConfigDict) else ():
        _need(tasks, "config.tasks", name)
        _need(tasks[name], f"config.tasks.{name}", "loss")


def _need(section: ml_collections.ConfigDict, where: str, *keys: str) -> None:
    for key in keys:
        if not isinstance(section.get(key), ml_collections.ConfigDict):
            raise UserError(f"{where}.{key} is {section.get(key)!r}; it must be a section.")


def _section(config: ml_collections.ConfigDict, path: str) -> Any:
    """The section at a path; None if it, or one that it is in, is None or missing."""
    section: Any = config
    for name in path.split("."):
        section = None if section is None else section.get(name)
    return section


def _convert_published(config: ml_collections.ConfigDict) -> None:
    """Replaces the folder or file of a published model by the folder that it is converted into."""
    section = config.get("init_from")
    if not section or not section.get("model"):
        return
    path = epath.Path(section.model)
    if not path.exists() or any((path / f"{kind}.json").exists() for kind in ("model", "tower")):
        return
    # It imports readers of other formats, which no other config needs.
    from xmodal.pretrained.published_models import NotPublishedError, convert_once

    try:
        processes.first_does("convert the published model", lambda: convert_once(path))
        # Other hosts may not see the cache of the first.
        section.model = os.fspath(convert_once(path))
    except NotPublishedError as error:
        raise UserError(
            f"config.init_from.model={os.fspath(path)!r} is not a converted model: "
            f"{path / 'model.json'} is missing, nor does it open as a published CLIP or SigLIP: "
            f"{error}"
        ) from error


def _take_model(config: ml_collections.ConfigDict, folder: str, level: int) -> None:
    """Takes the whole model, its tasks and its input preprocessing from a folder.

    Images keep a size that the config sets, to which positions are resampled.
    """
    description = read_model(folder)
    model, own = description.model(), config.model.get("similarity") or {}
    if own.get("name") == model["similarity"]["name"]:
        # It may learn more than it did, such as a bias.
        model["similarity"] = {**own, **model["similarity"]}
    with config.unlocked():
        config.model = model
        if not config.get("tasks"):
            config.tasks = {name: dict(task) for name, task in description.tasks.items()}
        replaced = [
            line
            for side, tower in description.sides.items()
            if config.data.get(side) is not None
            for line in _replace_inputs(config.data[side], side, tower.preprocessing)
        ]
    if replaced:
        logging.log(level, "From the model %s: %s.", folder, ", ".join(replaced))


def _replace_inputs(
    section: ml_collections.ConfigDict, side: str, inputs: Mapping[str, Any]
) -> list[str]:
    """Sets a section of `config.data` as weights need it; returns a phrase for every change."""
    changed = []
    if inputs.get("tokenizer") in SUBWORDS:  # Settings of words are not for pieces.
        unset = {key: value for key, value in WORD_SETTINGS.items() if key in section}
        inputs = {**unset, **inputs}
    for key, value in inputs.items():
        given = section.get(key)
        if _plain(given) == _plain(value) or (key == "size" and not _is_unset(key, given)):
            continue
        old = "" if _is_unset(key, given) else f" instead of {given!r}"
        changed.append(f"config.data.{side}.{key}={value!r}{old}")
        section[key] = value
    return changed


def _fill(config: ml_collections.ConfigDict, weights: WeightsSettings, level: int) -> None:
    """Sets the values that the config leaves unset."""
    filled = []
    with config.unlocked():
        for path, keywords in itertools.chain(weights.fixed.items(), weights.proposed.items()):
            parent, _, last = path.rpartition(".")
            owner = _section(config, parent)
            if owner is not None and last in ("encoder", "head") and owner.get(last) is None:
                owner[last] = {}
            section = _section(config, path)
            if keywords is None or section is None or _is_other(section, keywords):
                continue
            for key, value in keywords.items():
                # "No layer" is a choice that a projection may have made.
                is_choice = last == "projection" and key in section
                if not is_choice and _is_unset(key, section.get(key)) and not _is_unset(key, value):
                    section[key] = value
                    filled.append(f"config.{path}.{key}={value!r}")
        text = config.data.get("text")
        if text is not None and weights.reads_text and not text.get("vocabulary"):
            if not weights.vocabulary:
                raise UserError(
                    f"{weights.name} has no vocab.txt: set config.data.text.vocabulary to the one "
                    "that its weights were trained with."
                )
            text.vocabulary = weights.vocabulary
    if filled:
        logging.log(level, "From %s: %s.", weights.name, ", ".join(filled))


def _contradictions(config: ml_collections.ConfigDict, weights: WeightsSettings) -> list[str]:
    """Returns a line for every value that differs in the weights."""
    wrong = []
    for path, keywords in weights.fixed.items():
        section = _section(config, path)
        if section is None and (keywords is None or path in ("model.pair_scorer", "data.text")):
            continue
        if section is None or keywords is None:
            given = None if section is None else section.to_dict()
            wrong.append(f"config.{path} is {given}, the weights have {keywords}")
            continue
        for key in ["name"] if _is_other(section, keywords) else keywords:
            given, value = section.get(key), keywords[key]
            both_unset = _is_unset(key, given) and _is_unset(key, value)
            if not both_unset and _plain(given) != _plain(value):
                wrong.append(f"config.{path}.{key} is {given!r}, the weights have {value!r}")
    text = config.data.get("text")
    if text is None:
        return wrong
    if weights.reads_text and weights.vocabulary and text.vocabulary != weights.vocabulary:
        wrong += _vocabulary_difference(text.vocabulary, weights.vocabulary)
    longest = text.get("max_length", TextConfig.max_length)
    if weights.longest is not None and longest > weights.longest:
        wrong.append(
            f"config.data.text.max_length is {longest}, the weights support texts of at most "
            f"{weights.longest} tokens"
        )
    return wrong


def _vocabulary_difference(given: str, known: str) -> list[str]:
    """Returns a line on the first entry that differs between two files; [] if none does."""
    ours, theirs = read_vocabulary(given), read_vocabulary(known)
    if ours == theirs:
        return []
    pairs = enumerate(itertools.zip_longest(ours, theirs))
    place, (one, other) = next(
        ((i, pair) for i, pair in pairs if pair[0] != pair[1]), (0, (ours.name, theirs.name))
    )
    return [
        f"config.data.text.vocabulary is {given!r} with {len(ours):,} entries, the weights have "
        f"the {len(theirs):,} of {known!r}; the first to differ is number {place}, {one!r} and "
        f"{other!r}"
    ]


def _same_entries(given: str, own: str) -> bool:
    return read_vocabulary(given) == read_vocabulary(own)


def _is_other(section: Mapping[str, Any], keywords: Mapping[str, Any]) -> bool:
    """Returns whether a section names a different part from the weights' own."""
    return "name" in keywords and section.get("name") not in (None, "", keywords["name"])


def _is_unset(key: str, value: Any) -> bool:
    return value is None or value == "" or (key in ("vocab_size", "size") and value == 0)


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, (list, tuple)) else value
