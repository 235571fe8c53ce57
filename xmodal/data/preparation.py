"""The check of a dataset before a run starts."""

from collections.abc import Iterable, Mapping
from typing import Any

from absl import logging

from xmodal.data.config import DataConfig, parse
from xmodal.data.ratings import load_ratings
from xmodal.data.sentence_pairs import open_captions
from xmodal.data.sources import open_builder


def prepare(config: Mapping[str, Any] | DataConfig, *, splits: Iterable[str] = ()) -> None:
    """Makes sure that the dataset of a config and its ratings exist; builds them if it can.

    Args:
      config: see `DataConfig`.
      splits: splits the run will read.

    Raises:
      DatasetMissingError: with what to put where and the command to run.
      UserError: an unknown key, name or split (the known ones are listed), records that lack a
        column, or ratings that are missing or not as released.
    """
    config = parse(config)
    open_builder(config, config.config)
    for split in splits:
        source = open_captions(config, split)
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
