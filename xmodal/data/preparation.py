"""The checks of a dataset before a run starts."""

import pathlib
from collections.abc import Iterable, Mapping
from typing import Any

from absl import logging

from data_prep.building.folder_key import is_below
from xmodal.core.errors import UserError
from xmodal.data.data_config import DataConfig, parse
from xmodal.data.datasets import follows_files, open_builder
from xmodal.data.ratings import load_ratings
from xmodal.data.sentence_pairs import open_captions


def prepare(config: Mapping[str, Any] | DataConfig, *, splits: Iterable[str] = ()) -> None:
    """Makes sure that a config's dataset and ratings exist; builds them if possible.

    Args:
      config: see `DataConfig`.
      splits: splits that the run will read.

    Raises:
      DatasetMissingError: says which files to put where, and which command to run.
      UserError: an unknown key, name or split (the known ones are listed), records that lack a
        column, or ratings that are missing or not as released.
    """
    config = parse(config)
    open_builder(config)
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


def check_outside(config: DataConfig, folder: str) -> None:
    """Checks that a folder that is written is not among the files that a dataset follows."""
    if follows_files(config) and is_below(folder, pathlib.Path(config.manual_dir)):
        raise UserError(
            f"{folder} is inside config.data.manual_dir={config.manual_dir!r}, which is another "
            "dataset whenever a file in it changes: use a --workdir outside of it."
        )
