"""The check before a run: is everything there that training and evaluation will read?"""

from collections.abc import Iterable, Mapping
from typing import Any

from absl import logging

from xmodal.data.config import DataConfig, parse
from xmodal.data.ratings import load_ratings
from xmodal.data.sources import Source, open_builder


def prepare(config: Mapping[str, Any] | DataConfig, *, splits: Iterable[str] = ()) -> None:
    """Makes sure that the dataset of a config and its ratings exist, and builds what it can.

    Args:
      config: see `DataConfig`.
      splits: splits the run will read.

    Raises:
      DatasetMissingError: with what to put where and the command to run.
      UserError: an unknown key, name or split (the known ones are listed), or ratings that are
        not there or not what was released.
    """
    config = parse(config)
    open_builder(config, config.config)
    for split in splits:
        source = Source(config, split)
        if source.left_out:
            logging.warning(
                "%s records of the split %s were left out when the dataset was prepared; %s lists "
                "them.",
                f"{source.left_out:,}",
                split,
                source.folder / "left_out.csv",
            )
    for split in ("validation", "test"):
        load_ratings(config, split)
