"""The check before a run: is everything there that training and evaluation will read?"""

from collections.abc import Mapping
from typing import Any

from xmodal.data.config import DataConfig, parse
from xmodal.data.ratings import load_ratings
from xmodal.data.sources import open_builder


def prepare(config: Mapping[str, Any] | DataConfig) -> None:
    """Makes sure that the dataset of a config and its ratings exist, and builds what it can.

    Raises:
        DatasetMissingError: with what to put where and the command to run.
        FileNotFoundError: the folder of CxC ratings lacks a file.
        ValueError: an unknown key or name; the known ones are listed.
    """
    config = parse(config)
    open_builder(config, config.config)
    for split in ("validation", "test"):
        load_ratings(config, split)
