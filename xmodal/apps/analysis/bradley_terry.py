"""Bradley-Terry scores of items from preferences between two of them.

    python -m xmodal bradley_terry --preferences=JUDGMENTS.csv

The file has one judgment per row, in the columns preferred and rejected. Or it is the `votes.csv`
of a preference study: each caption then counts once for every two models, divided among its
answers, and an answer without a winner, such as `same`, is half a win of either model.
"""

import collections
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from xmodal.apps.analysis.judgment_table import print_outcome
from xmodal.apps.analysis.votes import ALL, ANSWERS, SAME
from xmodal.core.config import lookup
from xmodal.core.errors import UserError
from xmodal.core.text_table import Rows

_OF_VOTES = ("example", "answer", "group", "first_model", "second_model")


def bradley_terry(
    preferences: Iterable[tuple[str, str]] | Mapping[tuple[str, str], float],
) -> dict[str, float]:
    """Maximum likelihood scores under P(i is preferred to j) = s_i / (s_i + s_j).

    The log-likelihood is concave in log s, and Newton's method in a trust region finds its maximum.
    The usual MM iterations (Hunter, 2004) take millions of rounds if one item wins nearly always.

    Args:
      preferences: one (preferred, rejected) pair of item names per judgment; or these pairs and
        how often each occurs, which may be a fraction.

    Returns:
      Item -> score, by name; scores sum to 100, as the ECCV Caption paper prints them.
    """
    from scipy import optimize, special  # Slow to import.
    from scipy.sparse import csgraph, csr_array

    counts: Mapping[tuple[str, str], float] = collections.Counter(preferences)  # type: ignore[arg-type]
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
    print_outcome("bradley_terry", __doc__, "--preferences", (), _score_rows)


def _score_rows(rows: Sequence[Mapping[str, str]]) -> Rows:
    head = rows[0] if rows else {}
    is_votes = "answer" in head
    for column in _OF_VOTES if is_votes else ("preferred", "rejected"):
        lookup("the columns", column, head)
    if is_votes:
        return _score_votes(rows)
    scores = bradley_terry((row["preferred"], row["rejected"]) for row in rows)
    best = sorted(scores.items(), key=lambda each: -each[1])
    return [["item", "score"], *([item, f"{score:.2f}"] for item, score in best)]


def _score_votes(rows: Sequence[Mapping[str, str]]) -> Rows:
    """The scores of models from votes, and how many captions each won, lost and tied."""
    examples: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        if row["group"] == ALL:
            key = row["first_model"], row["second_model"], row["example"]
            examples.setdefault(key, []).append(row["answer"])
    wins: dict[tuple[str, str], float] = collections.defaultdict(float)
    results: dict[tuple[str, str], float] = collections.defaultdict(float)
    for (first, second, _), answers in examples.items():
        for answer in answers:
            sign = lookup("the answers", answer, ANSWERS)
            kinds = "lost", SAME if answer == SAME else "tied", "won"
            for model, other, own in ((first, second, sign), (second, first, -sign)):
                wins[model, other] += (1 + own) / 2 / len(answers)
                results[model, kinds[own + 1]] += 1 / len(answers)
    scores, names = bradley_terry(wins), ("won", "lost", "tied", SAME)
    return [["model", "score", *names], *(
        [model, f"{scores[model]:.2f}", *(f"{results[model, name]:.1f}" for name in names)]
        for model in sorted(scores, key=scores.__getitem__, reverse=True)
    )]  # fmt: skip


if __name__ == "__main__":
    main()
