"""A prepared dataset as the checks see it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from data_prep.checks.columns import Columns
from data_prep.checks.figures import Figure, figures_of, joins_of, judged, lookup
from data_prep.checks.rows import Row, Value
from data_prep.checks.walking import Walked, walk
from data_prep.errors import NotPreparedError
from data_prep.prepared import open_prepared


class Prepared:
    """One builder config of a dataset, read once.

    Args:
      dataset: key of `data_prep.BUILDERS`.
      config: builder config.
      data_dir: where TFDS keeps datasets; None for its own place.
      check_images: whether every image is decoded.

    Attributes:
      figures: what is known of it, see `checks.figures`.
      metadata: what the build found out.
      walked: split -> what was read.
      checked_images: whether images were decoded.
      data_dir: see above.

    Raises:
      NotPreparedError: the dataset has not been built, or its description cannot be read.
    """

    def __init__(
        self, dataset: str, config: str, *, data_dir: str | None = None, check_images: bool = True
    ) -> None:
        self.builder = open_prepared(dataset, config, data_dir)
        self.data_dir = data_dir
        self.checked_images = check_images
        self.metadata: dict[str, Any] = dict(self.builder.info.metadata or {})
        self.figures = figures_of(dataset, config)
        self._joins = joins_of(dataset, config)
        self.walked: dict[str, Walked] = {
            split: walk(self.builder, split, check_images=check_images)
            for split in self.builder.info.splits
        }

    @property
    def splits(self) -> dict[str, Columns]:
        """Split -> its columns; train, validation and test first."""
        return {split: walked.columns for split, walked in self.walked.items()}

    @property
    def pairs_of_splits(self) -> Iterator[tuple[str, Columns, str, Columns]]:
        """Every split with every split before it."""
        splits = list(self.splits.items())
        for number, (split, columns) in enumerate(splits):
            for earlier, earlier_columns in splits[:number]:
                yield split, columns, earlier, earlier_columns

    @property
    def is_part(self) -> bool:
        """Whether the dataset is, as it says itself, a part of the published one."""
        return _is_part(self.metadata)

    def row(self, name: str, found: Value, default: Figure | None = None, *, note: str = "") -> Row:
        """A row of the table.

        Args:
          name: of the row.
          found: the figure.
          default: what is expected if the dataset's own figures do not say; None for nothing.
          note: for the reader.
        """
        figure = lookup(self.figures, name, default)
        return judged(name, found, figure, part=self.is_part, note=note)

    def figure(self, name: str) -> Figure | None:
        """What the dataset's own figures say of a row."""
        return lookup(self.figures, name, None)

    def joined(self) -> "Joined | None":
        """The ids that rows of this dataset refer to, None if that dataset is not prepared."""
        for name in self._joins:
            try:
                return Joined(name, self.data_dir)
            except NotPreparedError:
                continue
        return None

    @property
    def join_names(self) -> Sequence[str]:
        """Datasets that rows refer to, as `dataset/config`."""
        return self._joins


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
        builder = open_prepared(*name.split("/"), data_dir)
        self.is_part = _is_part(dict(builder.info.metadata or {}))
        self._walked = {
            split: walk(builder, split, check_images=False).columns for split in builder.info.splits
        }

    def ids(self, feature: str, split: str) -> np.ndarray:
        """Ids of a feature in one split, int64 [V]; in all splits if there is none of this name."""
        splits = [self._walked[split]] if split in self._walked else list(self._walked.values())
        return np.concatenate([columns.ids[feature].values for columns in splits])


def _is_part(metadata: Mapping[str, Any]) -> bool:
    """Whether a dataset with this description lacks records, on purpose or not."""
    lost = (*metadata.get("left_out", {}).values(), *metadata.get("parts", {}).values())
    return not metadata.get("complete", True) or any(lost)
