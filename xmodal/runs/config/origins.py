"""Config settings that follow from the weights a run starts from."""

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from etils import epath

from xmodal.base.config import lookup, read
from xmodal.models import ENCODERS, HEADS
from xmodal.models.entry_table import Row
from xmodal.models.pair_scorers import PAIR_SCORERS
from xmodal.models.projection import ProjectionConfig
from xmodal.preprocessing import TextConfig
from xmodal.preprocessing.text_config import ID_FIELDS
from xmodal.preprocessing.tokenizer_files import FILES
from xmodal.pretrained.folder import check_weights, read_description
from xmodal.pretrained.model_folder import SIDES, read_model
from xmodal.runs.folder import run_folder
from xmodal.runs.initialization import from_run
from xmodal.runs.sections import InitConfig
from xmodal.similarity import make_similarity

# How an encoder or head is computed or trained: keywords that may differ between runs.
_FREE = frozenset(
    (
        "attention", "batch_norm", "depthwise", "drop", "drop_connect", "drop_connect_over",
        "drop_path", "drop_varies", "dropout", "dtype", "init", "init_scale", "layer_init",
        "lower_depth", "pack", "remat", "remat_policy", "samples", "seed", "score", "statistics",
        "unroll", "variance",
    )
)  # fmt: skip
_PIXELS = ("size", "patch", "eval_recipe", "eval_crop")


@dataclasses.dataclass(frozen=True)
class Part:
    """A section of a config with the values that came with the weights.

    Attributes:
      path: path of the section, such as `model.text.encoder`.
      keywords: its keywords; None if the section is None.
      is_fixed: whether any other value in the config is an error.
      is_optional: whether the config may be without the section.
    """

    path: str
    keywords: Mapping[str, Any] | None
    is_fixed: bool = True
    is_optional: bool = False


@dataclasses.dataclass(frozen=True)
class Origin:
    """Settings that follow from the weights of one folder.

    Attributes:
      name: name of the folder, as error messages give it.
      parts: sections of the config.
      reads_text: whether the weights depend on token ids.
      vocabulary: path of their vocab.txt; "" if there is none.
      longest: tokens of the longest text that they support.
      is_own: whether these are weights of the run itself.
    """

    name: str
    parts: Sequence[Part] = ()
    reads_text: bool = False
    vocabulary: str = ""
    longest: int | None = None
    is_own: bool = False


def model_origin(folder: str) -> Origin:
    """Returns the settings, besides its towers, of a folder of `xmodal convert --model`.

    Raises:
      UserError: the folder is missing or damaged.
    """
    model = read_model(folder)
    parts = [Part("model.similarity", model.similarity)]
    if model.pair_scorer is not None:
        scorer = _part_of("model.pair_scorer", model.pair_scorer, PAIR_SCORERS)
        parts.append(Part("model.pair_scorer", scorer, is_optional=True))
    return Origin(f"the model {folder}", parts)


def tower_origin(side: str, folder: str, *, of_model: bool = False) -> Origin:
    """Returns the settings that follow from a folder of `xmodal convert`.

    Args:
      side: "image" or "text".
      folder: folder of the tower.
      of_model: whether it is part of a model, whose head and projection the config has to match.

    Raises:
      UserError: the folder is missing, incomplete or damaged.
    """
    tower, where = read_description(folder), f"model.{side}"
    check_weights(folder)
    inputs = tower.preprocessing
    encoder = _part_of(f"{where}.encoder", tower.encoder, ENCODERS)
    if inputs.get("normalization"):
        encoder["normalization"] = inputs["normalization"]
    positions = {}
    if "position_resize" in encoder and "max_positions" in encoder:
        positions = {"max_positions": encoder.pop("max_positions")}
    head = _part_of(f"{where}.head", tower.side()["head"], HEADS)
    parts = [
        Part(f"{where}.encoder", encoder),
        Part(f"{where}.encoder", positions, is_fixed=False),
        Part(f"{where}.head", head, is_fixed=of_model),
    ]
    if of_model:
        parts.append(Part(f"{where}.projection", _projection(where, tower.projection)))
    if side == "image":
        pixels = {key: inputs[key] for key in _PIXELS if key in inputs}
        parts.append(Part("data.image", pixels, is_fixed=False))
        return Origin(f"the tower {folder}", parts)
    longest = inputs.get("max_length")
    parts.append(Part("data.text", {key: inputs[key] for key in ID_FIELDS if key in inputs}))
    if longest is not None:
        reads_pads = inputs.get("reads_pads", False)
        usual = longest if reads_pads else min(longest, TextConfig.max_length)
        parts.append(Part("data.text", {"max_length": usual}, is_fixed=reads_pads))
    files = (epath.Path(folder) / name for name in FILES)
    vocabulary = next((os.fspath(path) for path in files if path.exists()), "")
    return Origin(
        f"the tower {folder}",
        parts,
        reads_text=True,
        vocabulary=vocabulary,
        longest=None if positions else longest,
    )


def run_origin(source: InitConfig) -> Origin:
    """Returns the settings that follow from another run's weights.

    Args:
      source: `config.init_from`; only parts with a parameter that `include` names count.

    Raises:
      UserError: there is no such run or checkpoint, or `include` matches nothing in it.
    """
    taken, others = from_run.split_paths(source)
    config = run_folder.load_run(source.run)
    parts: list[Part] = []
    for side in SIDES:
        section = config.model.get(side)
        has_encoder = any(path.startswith(f"{side}/encoder/") for path in taken)
        for name, table in (("encoder", ENCODERS), ("head", HEADS)):
            prefix = f"{side}/{name}/"
            is_taken = any(path.startswith(prefix) for path in taken)
            # A head without parameters goes with its encoder.
            has_none = not any(path.startswith(prefix) for path in others)
            if is_taken or (name == "head" and has_encoder and has_none):
                keywords = _part_of(f"model.{side}.{name}", section[name].to_dict(), table)
                parts.append(Part(f"model.{side}.{name}", keywords, is_fixed=is_taken))
        if any(path.startswith(f"{side}/projection/") for path in taken):
            projection = _projection(f"model.{side}", section.projection)
            parts.append(Part(f"model.{side}.projection", projection))
        if side == "image" and has_encoder and config.data.image.size:
            size = {"size": config.data.image.size}
            parts.append(Part("data.image", size, is_fixed=False))
    parts += _comparisons(config.model, taken)
    if not any(path.startswith("text/encoder/") for path in taken):
        return Origin(f"the run {source.run}", parts)
    text = read(TextConfig, "config.data.text", config.data.text)
    parts.append(Part("data.text", {key: getattr(text, key) for key in ID_FIELDS}))
    length = {"max_length": text.max_length}
    parts.append(Part("data.text", length, is_fixed=text.reads_pads))
    # Positions beyond its longest text still have random values, unless they were published.
    start = config.init_from
    learned_all = not (start.towers.text or start.run)
    has_positions = "max_positions" in config.model.text.encoder
    return Origin(
        f"the run {source.run}",
        parts,
        reads_text=True,
        vocabulary=text.vocabulary,
        longest=text.max_length if has_positions and learned_all else None,
    )


def own_origin(run_dir: str) -> Origin:
    """Returns the settings that a run was started with; `run_changes` compares them."""
    config = run_folder.load_run(run_dir).to_dict()
    parts = []
    for side in SIDES:
        for name, keywords in (config["model"].get(side) or {}).items():
            if keywords is not None:
                parts.append(Part(f"model.{side}.{name}", keywords, is_fixed=False))
    if config["data"]["image"] is not None:
        size = {"size": config["data"]["image"]["size"]}
        parts.append(Part("data.image", size, is_fixed=False))
    text = config["data"]["text"] or {}
    keywords = {key: text[key] for key in (*ID_FIELDS, "max_length") if key in text}
    parts.append(Part("data.text", keywords, is_fixed=False))
    vocabulary = text.get("vocabulary", "")
    return Origin(f"the run {run_dir}", parts, vocabulary=vocabulary, is_own=True)


def _comparisons(model: Mapping[str, Any], taken: Sequence[str]) -> Iterator[Part]:
    """Yields the similarity and the pair scorer, as far as their parameters are taken."""
    if any(path.startswith("similarity/") for path in taken):
        similarity = make_similarity({**(model.get("similarity") or {"name": "dot"})})
        yield Part("model.similarity", {"name": similarity.name} | similarity.options)
    if any(path.startswith("pair_scorer/") for path in taken):
        section = {**model["pair_scorer"]}
        keywords = _part_of("model.pair_scorer", section, PAIR_SCORERS)
        yield Part("model.pair_scorer", keywords, is_optional=True)


def _part_of(where: str, section: Mapping[str, Any], table: Mapping[str, Row]) -> dict[str, Any]:
    """Returns the name of a part and the keywords that affect its weights."""
    name = section["name"]
    keywords = {key: value for key, value in section.items() if key != "name"}
    row = lookup(f"config.{where}.name", name, table)
    return {"name": name} | _meaning(read(row.config, f"config.{where}", keywords))


def _projection(where: str, section: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if section is None:
        return None
    return _meaning(read(ProjectionConfig, f"config.{where}.projection", section))


def _meaning(section: Any) -> dict[str, Any]:
    keywords = dataclasses.asdict(section)
    return {k: value for k, value in keywords.items() if k not in _FREE and value is not None}
