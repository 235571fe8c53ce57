"""How good one set of positives is, judged by another: precision and recall of a dataset."""

import dataclasses
import json
from collections.abc import Collection, Mapping

import numpy as np
from etils import epath

from xmodal.config import UserError

# Query id -> ids of its positives.
PositiveLists = Mapping[int, Collection[int]]


@dataclasses.dataclass(frozen=True)
class LabelQuality:
    """What `label_quality` found.

    Attributes:
      precision: mean over queries, in percent; NaN if it is defined for none.
      recall: mean over queries, in percent; NaN if it is defined for none.
      precision_queries: queries behind the precision: judged, with a positive to judge.
      recall_queries: queries behind the recall: those with a true positive.
    """

    precision: float
    recall: float
    precision_queries: int
    recall_queries: int


def label_quality(
    labels: PositiveLists, truth: PositiveLists, *, annotated: PositiveLists | None = None
) -> LabelQuality:
    """Dataset precision and recall as in section 3 of the ECCV Caption paper.

    With r the positives of a query in `labels` and t those in `truth`, precision is the mean of
    |r and t| / |r| and recall the mean of 1 - |t without r| / |t|, over the queries of `truth`:
    only they were judged. A query without labels has recall 0 and no precision.

    Args:
      labels: the set under test.
      truth: the set it is judged by, usually a small and careful one.
      annotated: the items somebody looked at, by query. Others are then left out of r in the
        precision: unseen is not wrong. None counts them as wrong, which is how the first revision
        of the paper came to a precision of 47 % for COCO's own captions.

    Raises:
      UserError: no query is in both sets, or `annotated` lacks a query.
    """
    if not set(labels) & set(truth):
        raise UserError(
            f"The labels ({len(labels)} queries) and the truth ({len(truth)} queries) share no "
            "query: both must be of the same direction and split."
        )
    precisions, recalls = [], []
    for query, positives in truth.items():
        true, found = set(positives), set(labels.get(query, ()))
        if true:
            recalls.append(len(true & found) / len(true))
        if annotated is not None:
            if query not in annotated:
                raise UserError(
                    f"Query {query} of the truth is not among the {len(annotated)} annotated "
                    "queries: give the items annotated for every query."
                )
            found &= set(annotated[query])
        if found:
            precisions.append(len(true & found) / len(found))
    return LabelQuality(
        precision=_percent(precisions),
        recall=_percent(recalls),
        precision_queries=len(precisions),
        recall_queries=len(recalls),
    )


def load_positive_lists(path: epath.PathLike) -> dict[int, frozenset[int]]:
    """Reads positives as the eccv_caption library releases them: `{"query id": [ids]}`.

    Unlike the pairs of `labels.released.read_lists`, this keeps queries with an empty list: they
    were judged.

    Raises:
      UserError: the file cannot be read or holds something else.
    """
    expected = "expected a JSON object from query id to a list of ids"
    try:
        found = json.loads(epath.Path(path).read_text())
        return {int(query): frozenset(map(_as_id, ids)) for query, ids in found.items()}
    except OSError as error:
        raise UserError(f"Cannot read the positive lists {path}: {error}.") from error
    except (ValueError, TypeError, AttributeError) as error:
        raise UserError(f"Cannot use the positive lists {path}: {expected} ({error}).") from error


def _as_id(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{value!r} is no id")
    return value


def _percent(shares: list[float]) -> float:
    return 100 * float(np.mean(shares)) if shares else float("nan")
