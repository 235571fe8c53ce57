"""The settings that belong to stored weights: of a converted tower or model, or of a run."""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

import ml_collections
from etils import epath

from xmodal.core.config import lookup, read
from xmodal.core.errors import UserError
from xmodal.data.text.text_config import ID_FIELDS, TextConfig
from xmodal.data.text.tokenizer_files import FILES
from xmodal.models import ENCODERS, HEADS
from xmodal.models.basics import Row
from xmodal.models.pair_scorers import PAIR_SCORERS
from xmodal.models.projection import ProjectionConfig
from xmodal.pretrained.folder import check_weights, read_description
from xmodal.pretrained.model_folder import SIDES, read_model
from xmodal.similarity import make_similarity
from xmodal.train.folder import run_folder
from xmodal.train.initialization import from_run, from_towers
from xmodal.train.sections import InitConfig

_PIXELS = ("size", "patch", "eval_recipe", "eval_crop")
# How a part is computed, initialized, regularized or scored may differ from how it was trained.
_FREE = frozenset(
    (
        "attention", "batch_norm", "depthwise", "drop", "drop_connect", "drop_connect_over",
        "drop_path", "drop_varies", "dropout", "dtype", "init", "init_scale", "layer_init",
        "form", "lower_depth", "remat", "remat_policy", "samples", "seed", "score", "statistics",
        "unroll", "variance",
    )
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class WeightsSettings:
    """Settings that belong to the weights in one folder.

    Attributes:
      name: the folder, as error messages name it.
      fixed: path of a section -> its keywords, from which a config must not differ; None if the
        section is None.
      proposed: path of a section -> keywords that apply unless a config sets them.
      vocabulary: path of the tokenizer's file; "" if the folder has none.
      reads_text: whether the weights depend on token ids.
      longest: tokens of the longest text that they support; None for any length.
    """

    name: str
    fixed: Mapping[str, Mapping[str, Any] | None] = dataclasses.field(default_factory=dict)
    proposed: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    vocabulary: str = ""
    reads_text: bool = False
    longest: int | None = None


def named_weights(config: ml_collections.ConfigDict, source: InitConfig) -> list[WeightsSettings]:
    """Returns the settings of all weights that `config.init_from`, read as `source`, names.

    Raises:
      UserError: a folder is missing or damaged, or is for a side that the model does not have.
    """
    found = [_of_model(source.model)] if source.model else []
    for side, folder in from_towers.named_folders(source).items():
        if not config.model.get(side):
            what = "model" if source.model else f"towers.{side}"
            raise UserError(f"config.init_from.{what}={folder!r}, but config.model.{side} is None.")
        found.append(_of_tower(side, folder, of_model=bool(source.model)))
    if source.run:
        found.append(_of_run(source))
    if source.blend.run:
        blend = InitConfig(run=source.blend.run, step=source.blend.step, optimizer=False)
        found.append(_of_run(blend))
    return found


def of_own_run(run_dir: str) -> WeightsSettings:
    """Returns the settings that a run was started with; `run_changes` compares those it sets."""
    config = run_folder.load_run(run_dir).to_dict()
    proposed = {
        f"model.{side}.{part}": keywords
        for side in SIDES
        for part, keywords in (config["model"].get(side) or {}).items()
        if keywords is not None
    }
    if config["data"]["image"] is not None:
        proposed["data.image"] = {"size": config["data"]["image"]["size"]}
    text = config["data"]["text"] or {}
    proposed["data.text"] = {key: text[key] for key in (*ID_FIELDS, "max_length") if key in text}
    vocabulary = text.get("vocabulary", "")
    return WeightsSettings(f"the run {run_dir}", proposed=proposed, vocabulary=vocabulary)


def _of_model(folder: str) -> WeightsSettings:
    """The similarity and the pair scorer of a folder of `xmodal convert --model`."""
    model = read_model(folder)
    fixed: dict[str, Any] = {"model.similarity": model.similarity}
    if model.pair_scorer is not None:
        fixed["model.pair_scorer"] = _keywords("pair_scorer", model.pair_scorer, PAIR_SCORERS)
    return WeightsSettings(f"the model {folder}", fixed)


def _of_tower(side: str, folder: str, *, of_model: bool) -> WeightsSettings:
    """A folder of `xmodal convert`, alone or, with its head and projection, in a model."""
    tower, where = read_description(folder), f"model.{side}"
    check_weights(folder)
    inputs, name = tower.preprocessing, f"the tower {folder}"
    encoder = _keywords(f"{side}.encoder", tower.encoder, ENCODERS)
    if inputs.get("normalization"):
        encoder["normalization"] = inputs["normalization"]
    is_resized = "position_resize" in encoder and "max_positions" in encoder
    proposed: dict[str, dict[str, Any]] = {}
    if is_resized:
        proposed[f"{where}.encoder"] = {"max_positions": encoder.pop("max_positions")}
    fixed: dict[str, Any] = {f"{where}.encoder": encoder}
    head = _keywords(f"{side}.head", tower.side()["head"], HEADS)
    (fixed if of_model else proposed)[f"{where}.head"] = head
    if of_model:
        fixed[f"{where}.projection"] = _projection(where, tower.projection)
    if side == "image":
        proposed["data.image"] = {key: inputs[key] for key in _PIXELS if key in inputs}
        return WeightsSettings(name, fixed, proposed)
    fixed["data.text"] = {key: inputs[key] for key in ID_FIELDS if key in inputs}
    longest = inputs.get("max_length")
    if longest is not None and inputs.get("reads_pads"):
        fixed["data.text"]["max_length"] = longest
    elif longest is not None:
        proposed["data.text"] = {"max_length": min(longest, TextConfig.max_length)}
    files = (epath.Path(folder) / file for file in FILES)
    vocabulary = next((os.fspath(path) for path in files if path.exists()), "")
    longest = None if is_resized else longest
    return WeightsSettings(name, fixed, proposed, vocabulary, True, longest)


def _of_run(source: InitConfig) -> WeightsSettings:
    """The parts of another run with a parameter that `include` takes, and their inputs."""
    taken, others = from_run.split_paths(source)
    config, name = run_folder.load_run(source.run), f"the run {source.run}"

    def takes(prefix: str) -> bool:
        return any(path.startswith(prefix) for path in taken)

    fixed: dict[str, Any] = {}
    proposed: dict[str, dict[str, Any]] = {}
    for side in SIDES:
        for part, table in (("encoder", ENCODERS), ("head", HEADS)):
            # A head without parameters goes with its encoder.
            has_none = not any(path.startswith(f"{side}/{part}/") for path in others)
            is_bare_head = part == "head" and has_none and takes(f"{side}/encoder/")
            is_taken = takes(f"{side}/{part}/")
            if is_taken or is_bare_head:
                section = config.model[side][part].to_dict()
                keywords = _keywords(f"{side}.{part}", section, table)
                (fixed if is_taken else proposed)[f"model.{side}.{part}"] = keywords
        if takes(f"{side}/projection/"):
            projection = _projection(f"model.{side}", config.model[side].projection)
            fixed[f"model.{side}.projection"] = projection
    if takes("similarity/"):
        similarity = make_similarity(config.model.similarity.to_dict())
        fixed["model.similarity"] = {"name": similarity.name} | similarity.options
    if takes("pair_scorer/"):
        scorer = config.model.pair_scorer.to_dict()
        fixed["model.pair_scorer"] = _keywords("pair_scorer", scorer, PAIR_SCORERS)
    if takes("image/encoder/"):
        proposed["data.image"] = {"size": config.data.image.size}
    if not takes("text/encoder/"):
        return WeightsSettings(name, fixed, proposed)
    text = read(TextConfig, "config.data.text", config.data.text)
    fixed["data.text"] = {key: getattr(text, key) for key in ID_FIELDS}
    length = {"max_length": text.max_length}
    if text.reads_pads:
        fixed["data.text"] |= length
    else:
        proposed["data.text"] = length
    # Positions beyond its longest text still have random values, unless they were published.
    learned_all = not (config.init_from.towers.text or config.init_from.run)
    has_positions = "max_positions" in config.model.text.encoder
    return WeightsSettings(
        name,
        fixed,
        proposed,
        vocabulary=text.vocabulary,
        reads_text=True,
        longest=text.max_length if has_positions and learned_all else None,
    )


def _keywords(where: str, section: Mapping[str, Any], table: Mapping[str, Row]) -> dict[str, Any]:
    """The name of a part and the keywords that affect the meaning of its weights."""
    given = {key: value for key, value in section.items() if key != "name"}
    row = lookup(f"config.model.{where}.name", section["name"], table)
    return {"name": section["name"]} | _meaning(read(row.config, f"config.model.{where}", given))


def _projection(where: str, section: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if section is None:
        return None
    return _meaning(read(ProjectionConfig, f"config.{where}.projection", section))


def _meaning(section: Any) -> dict[str, Any]:
    keywords = dataclasses.asdict(section)
    return {k: value for k, value in keywords.items() if k not in _FREE and value is not None}
