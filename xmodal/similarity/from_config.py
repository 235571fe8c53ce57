"""Reads a similarity from a section of a config."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from xmodal.core import config
from xmodal.core.config import check_keys, lookup, set_whole
from xmodal.core.errors import UserError
from xmodal.similarity.similarity import Similarity, SimilarityConfig, finite_number
from xmodal.similarity.table import LATE_INTERACTIONS, SIMILARITIES, Kind


def make_similarity(given: Mapping[str, Any], where: str = "config.model.similarity") -> Similarity:
    """Returns the similarity that a section of the config describes.

    Args:
      given: `name` and keywords: those of `SimilarityConfig`, and initial values of the
        similarity's own parameters (`match_scale` and `match_shift` of `match_probability`) or
        fields of its module (`width` of `saf`).
      where: the section as a user writes it, for errors.

    Raises:
      UserError: unknown name or keyword, or a number out of its range.
    """
    if not isinstance(given, Mapping) or "name" not in given:
        raise UserError(f"{where} lacks a name; known: {sorted(SIMILARITIES | LATE_INTERACTIONS)}.")
    row: Any = lookup(f"{where}.name", given["name"], {**SIMILARITIES, **LATE_INTERACTIONS})
    numbers = row.parameters if isinstance(row, Kind) else {}
    fields = [] if isinstance(row, Kind) else [each.name for each in dataclasses.fields(row)]
    shared = [field.name for field in dataclasses.fields(SimilarityConfig)]
    instead = set_whole(where, name=given["name"])
    check_keys(where, given, [*shared, *numbers, *fields], instead=instead)
    settings = config.read(
        SimilarityConfig, where, {key: given[key] for key in shared if key in given}
    )
    _check_scale(where, settings)
    if not isinstance(row, Kind):
        if settings.field != "vector":
            raise UserError(f"{where}.field: {settings.name!r} compares tokens; leave it out.")
        keywords = {key: given[key] for key in fields if key in given}
        return Similarity(settings, module=config.read(row, where, keywords))
    initial = {
        key: finite_number(f"{where}.{key}", given.get(key, start))
        for key, start in numbers.items()
    }
    return Similarity(settings, tuple(initial.items()))


def _check_scale(where: str, settings: SimilarityConfig) -> None:
    limit, scale = settings.max_logit_scale, 1 / settings.temperature
    if (limit is not None or settings.clamp) and not (limit and settings.learned_temperature):
        raise UserError(
            f"{where}.max_logit_scale and clamp limit a learned temperature: set "
            "learned_temperature=True and max_logit_scale, 100 in CLIP, or remove both."
        )
    if limit is not None and not (1 if settings.clamp else 0) <= scale <= limit:
        raise UserError(
            f"{where}.temperature={settings.temperature:g} starts at the scale {scale:g}, which "
            f"max_logit_scale={limit:g} and clamp={settings.clamp} do not allow; change one."
        )
