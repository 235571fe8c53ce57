"""Bradley-Terry scores of items from preferences between two of them.

    python -m xmodal bradley_terry --preferences=JUDGMENTS.csv

The file has one judgment per row, in the columns preferred and rejected.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from xmodal.apps.analysis.judgment_table import print_outcome
from xmodal.core.errors import UserError
from xmodal.core.text_table import Rows


def count_wins(preferences: Iterable[tuple[str, str]]) -> tuple[list[str], np.ndarray]:
    """Counts the wins of every item over every other.

    Args:
      preferences: one (preferred, rejected) pair of item names per judgment.

    Returns:
      The K names, sorted, and float64 [K, K]: how often the row was preferred to the column.
    """
    preferences = list(preferences)
    if not preferences:
        raise UserError("There are no preferences to score: pass (preferred, rejected) pairs.")
    items = sorted({item for pair in preferences for item in pair})
    position = {item: i for i, item in enumerate(items)}
    wins = np.zeros((len(items), len(items)))
    for preferred, rejected in preferences:
        if preferred == rejected:
            raise UserError(f"A preference compares {preferred!r} with itself: remove it.")
        wins[position[preferred], position[rejected]] += 1
    return items, wins


def bradley_terry(items: Sequence[str], wins: np.ndarray) -> dict[str, float]:
    """Maximum likelihood scores under P(i is preferred to j) = s_i / (s_i + s_j).

    The log-likelihood is concave in log s. A Newton step that changes differences of two logs by d
    at most is shortened by log(1 + d) / d: with the third derivative of the logistic bounded by its
    second, every such step increases it (Bach, 2010). The usual MM iterations (Hunter, 2004) take
    millions of rounds if one item wins nearly always.

    Args:
      items: K names.
      wins: [K, K], how often item i was preferred to item j; the diagonal is zero.

    Returns:
      Item -> score; scores sum to 100, as the ECCV Caption paper prints them.
    """
    from scipy import special  # Slow to import.

    wins = np.asarray(wins, np.float64)
    _check(items, wins)
    met = wins + wins.T
    logs = np.zeros(len(items))
    for _ in range(1000):
        chance = special.expit(logs[:, None] - logs[None, :])
        gradient = (wins - met * chance).sum(axis=1)
        weights = met * chance * chance.T
        # Minus the second derivative. Adding a constant to all logs does not change probabilities;
        # adding ones makes the matrix invertible in that direction, where the gradient is zero.
        curvature = np.diag(weights.sum(axis=1)) - weights + weights.mean()
        step = np.linalg.solve(curvature, gradient)
        length = np.ptp(step)
        if length < 1e-13:
            break
        logs += step * (np.log1p(length) / length)
        logs -= logs.max()
    scores = np.exp(logs)
    return dict(zip(items, (100 * scores / scores.sum()).tolist(), strict=True))


def _check(items: Sequence[str], wins: np.ndarray) -> None:
    # A maximum exists when no split of the items leaves one side without a win over the other
    # (Ford, 1957): when wins connect every item to every other.
    from scipy.sparse import csgraph, csr_array  # Slow to import.

    parts, part_of = csgraph.connected_components(csr_array(wins > 0), connection="strong")
    for part in range(parts) if parts > 1 else ():
        inside = part_of == part
        if not np.any(wins[~inside][:, inside]):
            unbeaten = [item for item, is_in in zip(items, inside, strict=True) if is_in]
            raise UserError(
                f"Bradley-Terry scores do not exist: {unbeaten} never lost to the others in these "
                "counts, so they would be infinitely better. Add comparisons, or leave items out."
            )


def main() -> None:
    """Prints the scores of the items in the file that the command line names, the best first."""
    print_outcome("bradley_terry", __doc__, "--preferences", ("preferred", "rejected"), _score_rows)


def _score_rows(rows: Sequence[Mapping[str, str]]) -> Rows:
    scores = bradley_terry(*count_wins((row["preferred"], row["rejected"]) for row in rows))
    best = sorted(scores.items(), key=lambda each: -each[1])
    return [["item", "score"], *([item, f"{score:.2f}"] for item, score in best)]


if __name__ == "__main__":
    main()
