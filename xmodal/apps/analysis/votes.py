r"""Majority votes on which of two models answers better, as in table 6 of the CMCM paper.

    python -m xmodal votes --answers=ANSWERS.csv

The file has one answer of one person per row, in the columns `example`, `answer` (better, worse,
both_good or both_bad, for the first model compared with the second) and, for one table row per
group, `group`, such as the relation of the caption. More than half of the answers on an example
decide its vote. The last table row is of all groups: of the rows with `all` in this column, or, if
there are none, of all rows, whose examples then have numbers or names of their own in each group.

The paper does not define its t-test. Here every example is the mean of its answers,
1 for better, -1 for worse and 0 for both, and the test asks whether their mean is 0.
"""

import collections
import dataclasses
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from xmodal.apps.analysis.judgment_table import print_outcome
from xmodal.core.config import lookup
from xmodal.core.errors import UserError
from xmodal.core.text_table import Rows

ANSWERS: Mapping[str, int] = {"better": 1, "worse": -1, "both_good": 0, "both_bad": 0}
ALL = "all"
"""The group of all examples."""


@dataclasses.dataclass(frozen=True)
class Vote:
    """The votes on the examples of a group.

    Attributes:
      examples: number of examples.
      shares: answer -> percent of examples with this majority; the rest have no majority.
      t: statistic of the test, NaN if all examples have the same mean.
      p: p-value of the test.
    """

    examples: int
    shares: Mapping[str, float]
    t: float
    p: float


def count_votes(answers: Iterable[tuple[str, str, str]]) -> dict[str, Vote]:
    """Returns the vote of every group, and of `ALL` at the end if there are several.

    Args:
      answers: one (group, example, answer) per answer of a person; examples are numbered or named
        within their group. An example of several groups needs answers in the group `ALL`, too, to
        count once there.
    """
    of_example: dict[tuple[str, str], list[str]] = collections.defaultdict(list)
    for group, example, answer in answers:
        lookup(f"the answers on {example!r}", answer, ANSWERS)
        of_example[group, example].append(answer)
    if not of_example:
        raise UserError("There are no answers to count: pass rows of example and answer.")
    examples: dict[str, list[list[str]]] = collections.defaultdict(list)
    for (group, _), each in of_example.items():
        examples[group].append(each)
    everything = examples.pop(ALL, None)
    found = {group: _vote(each) for group, each in examples.items()}
    if everything or len(found) > 1:
        found[ALL] = _vote(everything or list(of_example.values()))
    return found


def tabulate_votes(votes: Mapping[str, Vote]) -> Rows:
    """Returns the cells of a table with a row per group."""
    header = ["group", "examples", *ANSWERS, "no majority", "t", "p"]
    rows = [
        [
            group,
            str(vote.examples),
            *(f"{vote.shares[answer]:.0f}" for answer in ANSWERS),
            f"{100 - sum(vote.shares.values()):.0f}",
            f"{vote.t:.2f}",
            f"{vote.p:.2g}",
        ]
        for group, vote in votes.items()
    ]
    return [header, *rows]


def _vote(examples: list[list[str]]) -> Vote:
    from scipy import stats  # Slow to import.

    majorities = collections.Counter(
        answer
        for answers in examples
        for answer, count in collections.Counter(answers).items()
        if 2 * count > len(answers)
    )
    means = np.array([np.mean([ANSWERS[each] for each in answers]) for answers in examples])
    t = p = float("nan")
    if len(means) > 1 and np.ptp(means) > 0:
        t, p = map(float, stats.ttest_1samp(means, 0.0))
    shares = {answer: 100 * majorities[answer] / len(examples) for answer in ANSWERS}
    return Vote(len(examples), shares, t, p)


def main() -> None:
    """Prints the table of the answers in the file that the command line names."""
    print_outcome("votes", __doc__, "--answers", ("example", "answer"), _count_rows)


def _count_rows(rows: Sequence[Mapping[str, str]]) -> Rows:
    answers = ((row.get("group", ALL), row["example"], row["answer"]) for row in rows)
    return tabulate_votes(count_votes(answers))


if __name__ == "__main__":
    main()
