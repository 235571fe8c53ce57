"""A prepared dataset as the checks see it."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from data_prep.checks.figure_rows import FigureRow, judge, lookup
from data_prep.checks.split_contents import SplitContents, read_split
from data_prep.prepared import open_prepared, read_columns
from data_prep.published_figures import Figure, Value
from xmodal.core.errors import NotPreparedError


class Prepared:
    """One builder config of a dataset, read once.

    Args:
      builder: builder of the prepared dataset.
      data_dir: where TFDS keeps datasets; None for its default folder.
      check_images: whether every image is decoded.

    Attributes:
      builder: see above.
      figures: published figures, see `data_prep.published_figures`.
      metadata: `info.metadata` of the builder.
      splits: split -> its contents; train, validation and test first.
      checked_images: whether images were decoded.
      is_part: whether the dataset's description says that it is a part of the published one.
    """

    def __init__(self, builder: Any, data_dir: str | None, *, check_images: bool) -> None:
        self.builder = builder
        self.checked_images = check_images
        self.metadata: dict[str, Any] = dict(self.builder.info.metadata or {})
        self.is_part = _is_part(self.metadata)
        self.figures: Mapping[str, Figure] = builder.published_figures(builder.builder_config.name)
        self._data_dir = data_dir
        self.splits: dict[str, SplitContents] = {
            split: read_split(self.builder, split, check_images=check_images)
            for split in self.builder.info.splits
        }

    def before(self, split: str) -> Iterator[tuple[str, SplitContents]]:
        """Yields the splits before one."""
        for earlier, contents in self.splits.items():
            if earlier == split:
                return
            yield earlier, contents

    def row(
        self, name: str, found: Value, default: Figure | None = None, *, note: str = ""
    ) -> FigureRow:
        """Returns a row of the table.

        Args:
          name: name of the row.
          found: the figure.
          default: expected if no published figure is known; None for nothing.
          note: for the reader.
        """
        figure = lookup(self.figures, name, default)
        return judge(name, found, figure, part=self.is_part, note=note)

    def joined(self) -> "Joined | None":
        """The ids that rows of this dataset refer to; None if that dataset is not prepared."""
        for name in self.builder.REFERS_TO:
            try:
                return Joined(name, self._data_dir)
            except NotPreparedError:
                continue
        return None


class Joined:
    """Ids of another dataset, or of another config.

    Args:
      name: `dataset/config`.
      data_dir: see `Prepared`.

    Attributes:
      name: see above.
      is_part: see `Prepared`.

    Raises:
      NotPreparedError: it is not prepared.
    """

    def __init__(self, name: str, data_dir: str | None) -> None:
        self.name = name
        dataset, config = name.split("/")
        self._builder = open_prepared(dataset, config, data_dir)
        self.is_part = _is_part(dict(self._builder.info.metadata or {}))

    def ids(self, feature: str, split: str) -> np.ndarray:
        """Ids of a feature in one split, int64 [V]; in all splits if none has this name."""
        known = self._builder.info.splits
        splits = [split] if split in known else list(known)
        columns = [read_columns(self._builder, name, [feature])[feature] for name in splits]
        # Several ids per record are a list of arrays.
        return np.concatenate(
            [each if isinstance(each, np.ndarray) else np.concatenate(each) for each in columns]
        )


def _is_part(metadata: Mapping[str, Any]) -> bool:
    """Whether a dataset with this description lacks records, intentionally or not."""
    lost = (*metadata.get("left_out", {}).values(), *metadata.get("parts", {}).values())
    return not metadata.get("complete", True) or any(lost)
