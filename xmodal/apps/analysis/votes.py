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
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from xmodal.apps.analysis.judgment_table import print_outcome
from xmodal.core.config import lookup
from xmodal.core.text_table import Rows

ANSWERS: Mapping[str, int] = {"better": 1, "worse": -1, "both_good": 0, "both_bad": 0}
ALL = "all"
"""The group of all examples."""


class Vote(NamedTuple):
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
    examples: dict[str, dict[tuple[str, str], list[str]]] = {}
    for group, example, answer in answers:
        lookup(f"the answers on {example!r}", answer, ANSWERS)
        examples.setdefault(group, {}).setdefault((group, example), []).append(answer)
    everything = examples.pop(ALL, None)
    if everything is not None or len(examples) > 1:
        examples[ALL] = everything or {k: x for each in examples.values() for k, x in each.items()}
    return {group: _vote(list(each.values())) for group, each in examples.items()}


def _vote(examples: list[list[str]]) -> Vote:
    from scipy import stats  # Slow to import.

    majorities: collections.Counter[str] = collections.Counter()
    for answers in examples:
        ((answer, count),) = collections.Counter(answers).most_common(1)
        majorities[answer] += 2 * count > len(answers)
    means = np.array([np.mean([ANSWERS[each] for each in answers]) for answers in examples])
    t = p = float("nan")
    if len(means) > 1 and np.ptp(means) > 0:
        t, p = map(float, stats.ttest_1samp(means, 0.0))
    shares = {answer: 100 * majorities[answer] / len(examples) for answer in ANSWERS}
    return Vote(len(examples), shares, t, p)


def main() -> None:
    """Prints the table of the answers in the file that the command line names."""
    print_outcome("votes", __doc__, "--answers", ("example", "answer"), _tabulate)


def _tabulate(answers: Sequence[Mapping[str, str]]) -> Rows:
    rows: list[list[str]] = [["group", "examples", *ANSWERS, "no majority", "t", "p"]]
    triples = ((row.get("group", ALL), row["example"], row["answer"]) for row in answers)
    for group, vote in count_votes(triples).items():
        shares = (*vote.shares.values(), 100 - sum(vote.shares.values()))
        percents = (f"{share:.0f}" for share in shares)
        rows.append([group, f"{vote.examples}", *percents, f"{vote.t:.2f}", f"{vote.p:.2g}"])
    return rows


if __name__ == "__main__":
    main()
