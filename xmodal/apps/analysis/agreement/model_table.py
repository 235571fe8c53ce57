"""Tables of models, read from files."""

import math
from collections.abc import Sequence
from typing import Any

from etils import epath

from xmodal.core.errors import UserError
from xmodal.core.untrusted.json_text import parse_json_text


def load_models(paths: Sequence[str]) -> dict[str, dict[str, float]]:
    """Reads metrics of several models.

    Args:
      paths: folders of evaluations (with the `metrics.json` of one model, named after the folder)
        and JSON files of the form `{model: {tag: number}}`; null means undefined.

    Returns:
      Model -> tag -> number, NaN where undefined.

    Raises:
      UserError: a file cannot be read, is empty or has another format, or a model occurs twice.
    """
    models: dict[str, dict[str, float]] = {}
    came_from: dict[str, str] = {}
    for path in paths:
        for model, metrics in _load_path(path).items():
            if model in models:
                raise UserError(
                    f"Two models are called {model!r}, in {came_from[model]} and in {path}: "
                    "rename a folder or a model of a table."
                )
            models[model], came_from[model] = metrics, path
    if not models:
        raise UserError("No models to compare: pass a JSON table or folders with metrics.json.")
    return models


def _load_path(path: str) -> dict[str, dict[str, float]]:
    place = epath.Path(path)
    if place.is_dir():
        file = place / "metrics.json"
        # `.` and `..` are resolved to get a name; a link keeps its own.
        model = place.resolve().name if place.name in ("", "..") else place.name
        return {model: _as_metrics(load_object(file), str(file))}
    table = load_object(place)
    models = {}
    for model, metrics in table.items():
        if not isinstance(metrics, dict):
            raise UserError(
                f"{path} is not a table of models: {model!r} is {metrics!r}, expected an object "
                "from tag to number. For an evaluation, pass the folder and not its metrics.json."
            )
        models[model] = _as_metrics(metrics, f"{path}, model {model!r}")
    return models


def load_object(path: epath.Path) -> dict[str, Any]:
    """Reads a JSON object that is not empty and has no duplicate names.

    Raises:
      UserError: the file cannot be read or has another format.
    """
    try:
        found = parse_json_text(path.read_bytes(), parse_constant=_refuse_constant)
    except OSError as error:
        raise UserError(
            f"Cannot read {path}: {error}. Use a JSON table of models, or `--output` folders "
            "of evaluations."
        ) from error
    except ValueError as error:
        raise UserError(f"{path} is not a readable JSON file: {error}.") from error
    if not isinstance(found, dict) or not found:
        raise UserError(f"{path} must have a JSON object that is not empty, got {found!r:.60}.")
    return found


def _as_metrics(found: dict[str, Any], where: str) -> dict[str, float]:
    metrics = {}
    for tag, value in found.items():
        if value is None:
            metrics[tag] = math.nan
            continue
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise UserError(f"{tag!r} in {where} is {value!r}, expected a number or null.")
        if not math.isfinite(value):
            raise UserError(f"{tag!r} in {where} is too large for a number.")
        metrics[tag] = float(value)
    if all(map(math.isnan, metrics.values())):
        raise UserError(f"{where} has no number: there is nothing to compare.")
    return metrics


def _refuse_constant(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON; write null for undefined numbers")
