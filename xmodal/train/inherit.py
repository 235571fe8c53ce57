"""Settings that come with the weights a run starts from, or from the run itself when it resumes.

Weights bring their part of `config.model` and the inputs that belong to it: the tokenizer and its
vocabulary, the scaling of pixels. What a config leaves unset (left out, `None`, "", or 0 for
`vocab_size` and `size`) is taken from them. What the folder of a tower or model says otherwise is
an error that shows both values. A run also saved how it was trained, such as its dropout, so that
values other than its own are only logged; array shapes tell the rest.
"""

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from etils import epath
from ml_collections import ConfigDict

from xmodal.core.config import lookup, read
from xmodal.core.errors import UserError
from xmodal.data.text.text_config import ID_FIELDS, SUBWORDS, WORD_SETTINGS, TextConfig
from xmodal.data.text.tokenizer_files import FILES, is_packaged, read_vocabulary
from xmodal.models import ENCODERS
from xmodal.pretrained.folder import MODALITIES, check_weights, read_description, read_model
from xmodal.train.folder import run_folder
from xmodal.train.initialization import from_run, from_towers
from xmodal.train.run_config import find_section
from xmodal.train.sections import InitConfig

_PIXELS = ("size", "patch", "eval_transform", "eval_crop")
_ZERO_IS_UNSET = ("vocab_size", "size")


class _Weights(NamedTuple):
    """The settings that belong to the weights in one folder.

    Attributes:
      name: the folder, for errors.
      fixed: path of a section -> its keywords, which a config must not contradict.
      proposed: path of a section -> keywords that apply unless a config sets them.
    """

    name: str
    fixed: dict[str, Any]
    proposed: dict[str, Any]


def inherit(config: ConfigDict, run_dir: str | None = None) -> ConfigDict:
    """Returns a config with all settings that weights determine.

    No weights are read, unless `init_from.model` names a published CLIP or SigLIP, which is
    converted once; the config keeps its name, by which the run resumes.

    Args:
      config: the root; it is not changed.
      run_dir: the run's folder. A run with checkpoints resumes as it was started and needs no
        other folder. None for a model that is not trained.
    """
    settings = config.to_dict()
    for path in ("model", "data"):
        if find_section(settings, path) is None:
            raise UserError(f"config.{path} is missing; it must be a section.")
    settings["model"] = dict.fromkeys(MODALITIES) | settings["model"]
    if run_dir and run_folder.steps(run_dir):
        _resume(settings, run_dir)
    else:
        _start(settings)
    return ConfigDict(settings, type_safe=False)


def _resume(config: dict[str, Any], run_dir: str) -> None:
    """Fills in what the run was started with; `resolve` compares what the config sets."""
    own = run_folder.load_run(run_dir).to_dict()
    image, text = own["data"]["image"] or {}, own["data"]["text"] or {}
    if not any(config["model"][modality] for modality in MODALITIES):
        # As `_take_model` did, whose folder may be gone.
        config["model"], config["tasks"] = own["model"], config.get("tasks") or own["tasks"]
        texts = (*ID_FIELDS, *WORD_SETTINGS, "max_length")
        for modality, keys in (("image", _PIXELS[1:]), ("text", texts)):
            if section := find_section(config, f"data.{modality}"):
                saved = own["data"][modality]
                section |= {key: saved[key] for key in keys if key in saved}
    sections = {
        f"model.{modality}.{part}": keywords
        for modality in MODALITIES
        for part, keywords in (own["model"].get(modality) or {}).items()
    }
    sections["data.image"] = {"size": image.get("size")}
    sections["data.text"] = {key: text.get(key) for key in (*ID_FIELDS, "max_length")}
    _fill(config, sections)
    section, known = find_section(config, "data.text"), text.get("vocabulary")
    if section and known:
        given = section.get("vocabulary") or known
        # The run may have been moved without the file from which it was started.
        is_lost = not (is_packaged(given) or epath.Path(given).exists())
        section["vocabulary"] = known if is_lost or _agree("vocabulary", given, known) else given


def _start(config: dict[str, Any]) -> None:
    """Fills in what comes with the weights of `config.init_from`."""
    given = read(InitConfig, "config.init_from", config.get("init_from", {}))
    source = from_towers.with_local_folders(given)
    if source.model and not any(config["model"][modality] for modality in MODALITIES):
        _take_model(config, source.model)
    for weights in _named_weights(source):
        if wrong := _fill(config, weights.fixed, weights.name):
            lines = "".join(f"  {line}\n" for line in wrong)
            raise UserError(
                f"The config contradicts {weights.name}:\n{lines}Leave these unset (None; '' for "
                "a name or path) to use the values that came with the weights, or start from "
                "other weights."
            )
        _fill(config, weights.proposed)


def _take_model(config: dict[str, Any], folder: str) -> None:
    """Takes the whole model, its tasks and its input preprocessing from a folder.

    Images keep a size that the config sets, to which positions are resampled.
    """
    description = read_model(folder)
    model, own = description.section(), config["model"].get("similarity") or {}
    if own.get("name") == model["similarity"]["name"]:
        # It may learn more than it did, such as a bias.
        model["similarity"] = own | model["similarity"]
    config["model"] = model
    if not config.get("tasks"):
        config["tasks"] = {name: dict(task) for name, task in description.tasks.items()}
    for modality, tower in description.towers.items():
        if (section := find_section(config, f"data.{modality}")) is not None:
            # Settings of words are not for pieces.
            is_words = tower.preprocessing.get("tokenizer") not in SUBWORDS
            unset = {} if is_words else {k: x for k, x in WORD_SETTINGS.items() if k in section}
            size = {"size": section["size"]} if section.get("size") else {}
            section |= {**unset, **tower.preprocessing, **size}


def _named_weights(source: InitConfig) -> Iterator[_Weights]:
    """The settings of all weights that `config.init_from` names."""
    if source.model:
        model = read_model(source.model)
        fixed = {"model.similarity": model.similarity, "model.cross_encoder": model.cross_encoder}
        yield _Weights(f"the model {source.model}", fixed, {})
    for modality, folder in from_towers.named_folders(source).items():
        yield _of_tower(modality, folder, of_model=bool(source.model))
    if source.run:
        yield _of_run(source)


def _of_tower(modality: str, folder: str, *, of_model: bool) -> _Weights:
    """A folder of `xmodal convert`, alone or, with its head and projection, in a model."""
    tower, where = read_description(folder), f"model.{modality}"
    check_weights(folder)
    inputs, encoder = tower.preprocessing, dict(tower.encoder)
    if inputs.get("normalization"):
        encoder["normalization"] = inputs["normalization"]
    fixed: dict[str, Any] = {f"{where}.encoder": encoder}
    proposed: dict[str, Any] = {}
    row = lookup(f"{folder}/tower.json", encoder["name"], ENCODERS)
    if hasattr(row.config, "position_resize"):
        proposed[f"{where}.encoder"] = {"max_positions": encoder.pop("max_positions", None)}
    (fixed if of_model else proposed)[f"{where}.head"] = tower.section()["head"]
    if of_model:
        fixed[f"{where}.projection"] = tower.projection
    if modality == "image":
        proposed["data.image"] = {key: inputs[key] for key in _PIXELS if key in inputs}
        return _Weights(f"the tower {folder}", fixed, proposed)
    fixed["data.text"] = {key: inputs[key] for key in ID_FIELDS if key in inputs}
    if longest := inputs.get("max_length"):
        if inputs.get("attend_to_padding"):
            fixed["data.text"]["max_length"] = longest
        else:
            proposed["data.text"] = {"max_length": min(longest, TextConfig.max_length)}
    paths = [os.fspath(p) for file in FILES if (p := epath.Path(folder) / file).exists()]
    fixed["data.text"]["vocabulary"] = paths[0] if paths else ""
    return _Weights(f"the tower {folder}", fixed, proposed)


def _of_run(source: InitConfig) -> _Weights:
    """The parts of another run with a parameter that `include` takes, and their inputs."""
    taken, name = from_run.find_taken(source), f"the run {source.run}"
    config = run_folder.load_run(source.run).to_dict()

    def takes(part: str) -> bool:
        return any(path.startswith(f"{part}/") for path in taken)

    proposed: dict[str, Any] = {}
    for modality in MODALITIES:
        for part in ("encoder", "head", "projection"):
            # A head may have no parameters; it goes with its encoder.
            if takes(f"{modality}/{part}") or (part == "head" and takes(f"{modality}/encoder")):
                proposed[f"model.{modality}.{part}"] = config["model"][modality].get(part)
    for part in ("similarity", "cross_encoder"):
        if takes(part):
            proposed[f"model.{part}"] = config["model"][part]
    if takes("image/encoder"):
        proposed["data.image"] = {"size": config["data"]["image"]["size"]}
    if not takes("text/encoder"):
        return _Weights(name, {}, proposed)
    text = read(TextConfig, "config.data.text", config["data"]["text"])
    fixed = {key: getattr(text, key) for key in (*ID_FIELDS, "vocabulary")}
    if text.attend_to_padding:
        fixed["max_length"] = text.max_length
    else:
        proposed["data.text"] = {"max_length": text.max_length}
    return _Weights(name, {"data.text": fixed}, proposed)


def _fill(
    config: Mapping[str, Any],
    sections: Mapping[str, Mapping[str, Any] | None],
    name: str = "",
) -> list[str]:
    """Sets the values that the config leaves unset; returns a line for every one that differs.

    Args:
      config: the root, which is changed.
      sections: path of a section -> keywords that belong to weights.
      name: their name.
    """
    other = []
    for path, keywords in sections.items():
        parent, _, last = path.rpartition(".")
        owner = find_section(config, parent)
        if not owner or not keywords:
            continue
        if owner.get(last) is None and last in ("encoder", "head"):
            owner[last] = {}
        section = find_section(config, path)
        if section is None:
            if last == "projection":
                other.append(f"config.{path} is None, the weights have {keywords}")
            continue
        names_other = section.get("name") not in (None, "", keywords.get("name"))
        for key in ["name"] if names_other and "name" in keywords else keywords:
            given, value = section.get(key), keywords[key]
            is_unset = given is None or given == "" or (key in _ZERO_IS_UNSET and given == 0)
            if is_unset and key == "vocabulary" and not value:
                raise UserError(
                    f"{name} has no vocab.txt: set config.data.text.vocabulary to the one that its "
                    "weights were trained with."
                )
            if not is_unset:
                if not _agree(key, given, value):
                    other.append(f"config.{path}.{key} is {given!r}, the weights have {value!r}")
            # "No layer" is a choice that a projection may have made.
            elif not (last == "projection" and key in section) and value not in (None, ""):
                section[key] = value
    return other


def _agree(key: str, given: Any, value: Any) -> bool:
    if key == "vocabulary" and value:
        return given == value or read_vocabulary(given) == read_vocabulary(value)
    return key == "vocabulary" or json.dumps(given) == json.dumps(value)
