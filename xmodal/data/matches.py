"""Released lists of a dataset's positives: its config `matches`."""

import numpy as np

from xmodal.data.columns import dense, ragged
from xmodal.data.data_config import DataConfig
from xmodal.data.datasets import open_beside

MATCHES = "matches"
_COLUMNS = ("direction", "query_id", "positive_ids")


def load_matches(config: DataConfig, split: str) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Returns every matching pair, by direction, `i2t` and `t2i`.

    Each has the ids of queries and of their positives, int32 [P] each. The result is empty if the
    dataset has no such lists for this split. They are built on the first call.
    """
    source = open_beside(config, MATCHES, split)
    if source is None:
        return {}
    columns = source.get(_COLUMNS)
    directions, queries = (dense(columns[name]) for name in _COLUMNS[:2])
    positives = ragged(columns["positive_ids"])
    direction = np.repeat(directions, positives.lengths)
    query = np.repeat(queries, positives.lengths)
    return {
        name.decode(): (query[direction == name], positives.values[direction == name])
        for name in np.unique(directions)
    }
