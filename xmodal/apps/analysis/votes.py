r"""Majority votes on which of two models answers better, as in table 6 of the CMCM paper.

    python -m xmodal votes --answers=ANSWERS.csv

The file has one answer of one person per row, in the columns `example`, `answer` and, for one table
row per group, `group`, such as the relation of the caption. An answer is better, worse, both_good
or both_bad, for the first model compared with the second. An example has a single answer, same, if
both models find the same picture. More than half of the answers on an example decide its vote. The
last table row is of all groups: of the rows with `all` in this column, or, if there are none, of
all rows, whose examples then have numbers or names of their own in each group.

With the columns `first_model` and `second_model`, every two models have table rows of their own.

The paper's raters could also answer that the pictures are exactly the same. The table in the paper
has no column for this answer, but its four columns sum to 100%. So the paper's Both Good is
compared with the sum of both_good and same.

The paper does not define its t-test. Here every example is the mean of its answers,
1 for better, -1 for worse and 0 for others, and the test asks whether their mean is 0.
"""

import collections
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from xmodal.apps.analysis.judgment_table import print_outcome
from xmodal.core.config import lookup
from xmodal.core.text_table import Rows

SAME = "same"
"""The answer on an example for which both models find the same picture."""
ANSWERS: Mapping[str, int] = {"better": 1, "worse": -1, "both_good": 0, "both_bad": 0, SAME: 0}
_MODELS = ("first_model", "second_model")
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


def smallest_preference(examples: int, raters: int, level: float) -> tuple[float, float]:
    """Returns the smallest preference that a two-sided exact sign test detects with 80% power.

    Args:
      examples: number of examples on which a majority prefers one of the models.
      raters: number of raters of each.
      level: largest p-value of a detection.

    Returns:
      The share of these examples that one model has to win and, if raters decide independently, the
      share of their answers for it; NaN if there are too few examples.
    """
    from scipy import stats  # Slow to import.

    wins = int(stats.binom.isf(level / 2, examples, 0.5)) + 1
    # P(at least k of n) under the chance q is the beta distribution's CDF(q; k, n - k + 1).
    share = float(stats.beta.ppf(0.8, wins, examples - wins + 1))
    # An even number of raters is taken as one fewer: some of their votes are ties.
    majority = (raters + 1) // 2
    return share, float(stats.beta.ppf(share, majority, majority))


def describe_power(examples: int, raters: int) -> str:
    """Returns a sentence per level on the preferences that a study can detect.

    Args:
      examples: number of examples that raters see.
      raters: number of raters of each.
    """
    lines = []
    for level in (0.05, 0.01):
        found = [smallest_preference(n, raters, level) for n in (examples, examples // 2)]
        (share, answers), (half, half_answers) = (
            (f"{each:.0%}" if each < 1 else "over 100%" for each in pair) for pair in found
        )
        lines.append(
            f"p < {level}: with 80% power, a sign test detects a model that wins {share} of "
            f"{examples:,} captions ({answers} of the raters' answers), or, if half are ties, "
            f"{half} of {examples // 2:,} ({half_answers})."
        )
    return "\n".join(lines)


def main() -> None:
    """Prints the table of the answers in the file that the command line names."""
    print_outcome("votes", __doc__, "--answers", ("example", "answer"), _tabulate)


def _tabulate(answers: Sequence[Mapping[str, str]]) -> Rows:
    rows: list[list[str]] = [["group", "examples", *ANSWERS, "no majority", "t", "p"]]
    compared: dict[str, list[tuple[str, str, str]]] = {}
    for row in answers:
        models = " > ".join(row[name] for name in _MODELS if name in row)
        triple = row.get("group", ALL), row["example"], row["answer"]
        compared.setdefault(models, []).append(triple)
    for models, triples in compared.items():
        for group, vote in count_votes(triples).items():
            rest = max(0.0, 100 - sum(vote.shares.values()))  # Rounding may leave less.
            percents = (f"{share:.0f}" for share in (*vote.shares.values(), rest))
            numbers = f"{vote.examples}", *percents, f"{vote.t:.2f}", f"{vote.p:.2g}"
            rows.append([f"{models}: {group}" if len(compared) > 1 else group, *numbers])
    return rows


if __name__ == "__main__":
    main()
