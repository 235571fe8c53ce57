"""Checks sections that are read before the config is checked as a whole."""

from typing import Any

import ml_collections

from xmodal.base.config import UserError
from xmodal.pretrained.model_folder import SIDES


def check_sections(config: ml_collections.ConfigDict) -> None:
    """Raises an error if part of `config.model` or `config.tasks` is missing or not a section.

    Raises:
      UserError: names the place, and the value if there is one.
    """
    _check("config.model", config.model)
    for side in SIDES:
        where = f"config.model.{side}"
        if side not in config.model:
            raise UserError(f"{where} is missing; set it to None for a model without this side.")
        section = config.model[side]
        if section is not None:
            _check(where, section, needs="encoder")
            for part in ("head", "projection"):
                if section.get(part) is not None:
                    _check(f"{where}.{part}", section[part])
    tasks = config.get("tasks")
    for name, task in tasks.items() if isinstance(tasks, ml_collections.ConfigDict) else ():
        where = f"config.tasks.{name}"
        _check(where, task, needs="loss")
        if task.loss.get("module") is not None:
            _check(f"{where}.loss.module", task.loss.module)


def _check(where: str, section: Any, *, needs: str = "") -> None:
    """Checks a section and, if named, the section within it that it cannot do without."""
    if not isinstance(section, ml_collections.ConfigDict):
        raise UserError(f"{where} is {section!r}; it must be a section.")
    if needs:
        if needs not in section:
            raise UserError(f"{where} lacks {needs!r}; it has {sorted(section)}.")
        _check(f"{where}.{needs}", section[needs])
