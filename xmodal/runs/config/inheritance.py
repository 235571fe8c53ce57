"""Settings that a run inherits from its initial weights, or from itself when it resumes.

Weights determine the meaning of their inputs: the vocabulary, the tokenizer and its case rule, the
scaling of pixels, and the keywords of the layers. If a config leaves these unset (left out, `None`,
"", or 0 for `vocab_size` and `size`), they come from the weights; any other value is an error.
"""

import itertools
import os
from collections.abc import Mapping
from typing import Any

import ml_collections
from absl import logging
from etils import epath

from xmodal.base import processes
from xmodal.base.config import UserError, read
from xmodal.preprocessing import TextConfig, read_vocabulary
from xmodal.preprocessing.published_merges import is_packaged
from xmodal.preprocessing.text_config import SUBWORDS, WORD_SETTINGS
from xmodal.pretrained.model_folder import SIDES, read_model
from xmodal.runs.config.origins import Origin, model_origin, own_origin, run_origin, tower_origin
from xmodal.runs.config.section_check import check_sections
from xmodal.runs.folder import run_folder
from xmodal.runs.initialization import from_towers, from_word_vectors
from xmodal.runs.sections import InitConfig


def inherit(
    config: ml_collections.ConfigDict, run_dir: str | None = None, *, level: int = logging.INFO
) -> ml_collections.ConfigDict:
    """Returns a config with all settings that weights determine filled in.

    No weights are read, unless `init_from.model` names a published CLIP or SigLIP, which is
    converted once; the config then names the converted folder.

    Args:
      config: the root.
      run_dir: the run's folder. A run with checkpoints resumes as it was started and needs no
        other folder. None for a model that is not trained.
      level: logging level of the messages about filled-in settings.

    Raises:
      UserError: a run, tower or file is missing, incomplete or damaged, or contradicts the config.
    """
    config = config.copy_and_resolve_references()
    if missing := [name for name in ("model", "data") if name not in config]:
        raise UserError(f"config lacks {missing}.")
    check_sections(config)
    _convert_published(config)
    if run_dir and run_folder.steps(run_dir):
        origins = [own_origin(run_dir)]
    else:
        source = read(InitConfig, "config.init_from", config.get("init_from", {}))
        from_word_vectors.check_file(source, bool(config.model.get("text")))
        if source.model and not any(config.model.get(side) for side in SIDES):
            _take_model(config, source.model, level)
        origins = _find_origins(config, source)
    for origin in origins:
        _fill(config, origin, level)
        if wrong := _contradictions(config, origin):
            lines = "".join(f"  {line}\n" for line in wrong)
            raise UserError(
                f"The config contradicts {origin.name}:\n{lines}Leave these unset (None; '' for "
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


def _find_origins(config: ml_collections.ConfigDict, source: InitConfig) -> list[Origin]:
    """Returns the weights that `config.init_from` names."""
    origins = [model_origin(source.model)] if source.model else []
    for side, folder in from_towers.named_folders(source).items():
        if not config.model.get(side):
            what = "model" if source.model else f"towers.{side}"
            raise UserError(f"config.init_from.{what}={folder!r}, but config.model.{side} is None.")
        origins.append(tower_origin(side, folder, of_model=bool(source.model)))
    if source.run:
        origins.append(run_origin(source))
    if source.blend.run:
        blend = InitConfig(run=source.blend.run, step=source.blend.step, optimizer=False)
        origins.append(run_origin(blend))
    return origins


def _convert_published(config: ml_collections.ConfigDict) -> None:
    """Replaces the folder or file of a published model by the folder that it is converted into."""
    section = config.get("init_from")
    if not section or not section.get("model"):
        return
    path = epath.Path(section.model)
    if not path.exists():
        return
    if any((path / name).exists() for name in ("model.json", "tower.json")):
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


def _fill(config: ml_collections.ConfigDict, origin: Origin, level: int) -> None:
    """Sets the values that the config leaves unset."""
    filled = []
    with config.unlocked():
        for part in origin.parts:
            if part.keywords is None:
                continue
            *parents, last = part.path.split(".")
            parent = config
            for name in parents:
                parent = parent.get(name) or ml_collections.ConfigDict()
            if parent.get(last) is None and last in ("encoder", "head"):
                parent[last] = {}
            section = parent.get(last)
            if section is None or _is_other(section, part.keywords):
                continue
            for key, value in part.keywords.items():
                # "No layer" is a choice that a projection may have made.
                may_be_none = last == "projection" and key in section
                is_unset = not may_be_none and _is_unset(key, section.get(key))
                if is_unset and not _is_unset(key, value):
                    section[key] = value
                    filled.append(f"config.{part.path}.{key}={value!r}")
        text = config.data.get("text")
        if text is not None:
            _fill_vocabulary(text, origin)
    if filled and not origin.is_own:
        logging.log(level, "From %s: %s.", origin.name, ", ".join(filled))


def _fill_vocabulary(text: ml_collections.ConfigDict, origin: Origin) -> None:
    given = text.get("vocabulary")
    if origin.vocabulary and (not given or (origin.is_own and _is_same(given, origin.vocabulary))):
        text.vocabulary = origin.vocabulary
    if origin.reads_text and not text.get("vocabulary"):
        raise UserError(
            f"{origin.name} has no vocab.txt: set config.data.text.vocabulary to the one that its "
            "weights were trained with."
        )


def _is_same(given: str, own: str) -> bool:
    # A run may have been moved without the file from which it was started.
    is_there = is_packaged(given) or epath.Path(given).exists()
    return not is_there or read_vocabulary(given) == read_vocabulary(own)


def _contradictions(config: ml_collections.ConfigDict, origin: Origin) -> list[str]:
    """Returns a line for every value that differs in the weights."""
    if origin.is_own:
        return []
    wrong = []
    for part in (part for part in origin.parts if part.is_fixed):
        section: Any = config
        for name in part.path.split("."):
            section = None if section is None else section.get(name)
        if part.keywords is None:
            if section is not None:
                wrong.append(f"config.{part.path} is {section.to_dict()}, the weights have None")
            continue
        if section is None and part.is_optional:
            continue
        if section is None:
            wrong.append(f"config.{part.path} is None, the weights have {dict(part.keywords)}")
            continue
        keys = ["name"] if _is_other(section, part.keywords) else list(part.keywords)
        for key in keys:
            given, value = section.get(key), part.keywords[key]
            both_unset = _is_unset(key, given) and _is_unset(key, value)
            if not both_unset and _plain(given) != _plain(value):
                wrong.append(f"config.{part.path}.{key} is {given!r}, the weights have {value!r}")
    text = config.data.get("text")
    return wrong if text is None else wrong + _text_contradictions(text, origin)


def _text_contradictions(text: ml_collections.ConfigDict, origin: Origin) -> list[str]:
    wrong = []
    if origin.reads_text and origin.vocabulary and text.vocabulary != origin.vocabulary:
        given, known = read_vocabulary(text.vocabulary), read_vocabulary(origin.vocabulary)
        if given != known:
            pairs = enumerate(itertools.zip_longest(given, known))
            place, (one, other) = next(
                ((i, pair) for i, pair in pairs if pair[0] != pair[1]),
                (0, (given.name, known.name)),
            )
            wrong.append(
                f"config.data.text.vocabulary is {text.vocabulary!r} with {len(given):,} entries, "
                f"the weights have the {len(known):,} of {origin.vocabulary!r}; the first to "
                f"differ is number {place}, {one!r} and {other!r}"
            )
    longest = text.get("max_length", TextConfig.max_length)
    if origin.longest is not None and longest > origin.longest:
        wrong.append(
            f"config.data.text.max_length is {longest}, the weights support texts of at most "
            f"{origin.longest} tokens"
        )
    return wrong


def _is_other(section: Mapping[str, Any], keywords: Mapping[str, Any]) -> bool:
    """Returns whether a section names a different part from the weights' own."""
    return "name" in keywords and section.get("name") not in (None, "", keywords["name"])


def _is_unset(key: str, value: Any) -> bool:
    return value is None or value == "" or (key in ("vocab_size", "size") and value == 0)


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, (list, tuple)) else value
