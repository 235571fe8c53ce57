"""The folder of cached files."""

import os
import pathlib


def cache_folder(*names: str) -> pathlib.Path:
    """Returns the path of a folder below `~/.cache/xmodal`, or `$XDG_CACHE_HOME/xmodal`."""
    root = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return pathlib.Path(root, "xmodal", *names)
