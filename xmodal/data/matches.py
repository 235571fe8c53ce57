"""Released lists of a dataset's positives: its config `matches`."""

import dataclasses

import numpy as np

import data_prep
from xmodal.data.columns import dense, ragged
from xmodal.data.config import DataConfig
from xmodal.data.sources import Source, open_builder

MATCHES = "matches"
_COLUMNS = ("task", "query_id", "positive_ids")


def load_matches(config: DataConfig, split: str) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Returns every matching pair, by retrieval task, `i2t` and `t2i`.

    Each task has the ids of queries and of their positives, int32 [P] each. The result is empty if
    the dataset has no such lists for this split. They are built on the first call.
    """
    if MATCHES not in data_prep.builder_class(config.dataset).builder_configs:
        return {}
    if split not in open_builder(config, MATCHES).info.splits:
        return {}
    columns = Source(dataclasses.replace(config, config=MATCHES), split).get(_COLUMNS)
    tasks, queries = (dense(columns[name]) for name in _COLUMNS[:2])
    positives = ragged(columns["positive_ids"])
    task = np.repeat(tasks, positives.lengths)
    query = np.repeat(queries, positives.lengths)
    return {
        name.decode(): (query[task == name], positives.values[task == name])
        for name in np.unique(tasks)
    }
