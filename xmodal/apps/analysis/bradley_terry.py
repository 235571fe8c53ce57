"""Bradley-Terry scores of items from preferences between two of them.

    python -m xmodal bradley_terry --preferences=JUDGMENTS.csv

The file has one judgment per row, in the columns preferred and rejected.
"""

import collections
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from xmodal.apps.analysis.judgment_table import print_outcome
from xmodal.core.errors import UserError
from xmodal.core.text_table import Rows


def bradley_terry(preferences: Iterable[tuple[str, str]]) -> dict[str, float]:
    """Maximum likelihood scores under P(i is preferred to j) = s_i / (s_i + s_j).

    The log-likelihood is concave in log s, and Newton's method in a trust region finds its maximum.
    The usual MM iterations (Hunter, 2004) take millions of rounds if one item wins nearly always.

    Args:
      preferences: one (preferred, rejected) pair of item names per judgment.

    Returns:
      Item -> score, by name; scores sum to 100, as the ECCV Caption paper prints them.
    """
    from scipy import optimize, special  # Slow to import.
    from scipy.sparse import csgraph, csr_array

    counts = collections.Counter(preferences)
    items = sorted({item for pair in counts for item in pair})
    wins = np.array([[counts[a, b] * (a != b) for b in items] for a in items], np.float64)
    # A maximum exists when no split of the items leaves one side without a win over the other
    # (Ford, 1957): when wins connect every item to every other.
    parts, part_of = csgraph.connected_components(csr_array(wins > 0), connection="strong")
    for inside in (part_of == part for part in range(parts if parts > 1 else 0)):
        if not wins[~inside][:, inside].any():
            raise UserError(
                f"Bradley-Terry scores do not exist: {np.array(items)[inside].tolist()} never lost "
                "to the others in these counts, so they would be infinitely better. Add "
                "comparisons, or leave items out."
            )
    met = wins + wins.T

    def loss(logs: np.ndarray) -> tuple[float, np.ndarray]:
        gaps = logs[:, None] - logs
        return -(wins * special.log_expit(gaps)).sum(), -(wins - met * special.expit(gaps)).sum(1)

    def curvature(logs: np.ndarray) -> np.ndarray:
        chance = special.expit(logs[:, None] - logs)
        weights = met * chance * chance.T
        # Adding a constant to all logs changes nothing; adding ones makes the matrix invertible.
        return np.diag(weights.sum(axis=1)) - weights + weights.mean()

    start = np.zeros(len(items))
    found = optimize.minimize(loss, start, jac=True, hess=curvature, method="trust-exact",
                              options={"gtol": 1e-11})  # fmt: skip
    return dict(zip(items, (100 * special.softmax(found.x)).tolist(), strict=True))


def main() -> None:
    """Prints the scores of the items in the file that the command line names, the best first."""
    print_outcome("bradley_terry", __doc__, "--preferences", ("preferred", "rejected"), _score_rows)


def _score_rows(rows: Sequence[Mapping[str, str]]) -> Rows:
    scores = bradley_terry((row["preferred"], row["rejected"]) for row in rows)
    best = sorted(scores.items(), key=lambda each: -each[1])
    return [["item", "score"], *([item, f"{score:.2f}"] for item, score in best)]


if __name__ == "__main__":
    main()
