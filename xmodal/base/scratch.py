"""Settings of sides that start without weights: the section `scratch` of a config.

`scratch.image` and `scratch.text` hold sections of the root. A side that starts from weights
ignores them; otherwise they replace the rest of the config, except for overrides.
"""

from collections.abc import Iterable
from typing import Any

from ml_collections import ConfigDict


def keep_overrides(config: ConfigDict, paths: Iterable[str]) -> None:
    """Removes from `config.scratch` the values that an override sets in the rest of the config.

    Args:
      config: the root.
      paths: paths of overridden values or whole sections, such as `model.image.encoder`.
    """
    for path in paths:
        *parents, last = path.split(".")
        for section in (config.get("scratch") or {}).values():
            for name in parents:
                section = section.get(name) if isinstance(section, ConfigDict) else None
            if isinstance(section, ConfigDict) and last in section:
                with section.unlocked():
                    del section[last]


def pop_scratch(config: ConfigDict) -> dict[str, Any]:
    """Removes `config.scratch`, and returns its sections by side."""
    sections = config.get("scratch") or {}
    if "scratch" in config:
        with config.unlocked():
            del config.scratch
    return dict(sections.items())
