"""Bradley-Terry scores against closed forms, a slow optimizer and simulated people."""

import sys

import numpy as np
import pytest

from xmodal.apps.analysis import bradley_terry as command
from xmodal.apps.analysis.bradley_terry import bradley_terry


def minorise_maximise(wins, rounds=20000):
    """Hunter's algorithm (2004), one item at a time; slow but reliable."""
    scores = [1.0] * len(wins)
    for _ in range(rounds):
        for i in range(len(wins)):
            met = sum(
                (wins[i][j] + wins[j][i]) / (scores[i] + scores[j])
                for j in range(len(wins))
                if j != i
            )
            scores[i] = sum(wins[i]) / met
        total = sum(scores)
        scores = [100 * score / total for score in scores]
    return scores


def simulate(strengths, judgments, seed):
    rng = np.random.default_rng(seed)
    wins = np.zeros((len(strengths),) * 2)
    for _ in range(judgments):
        i, j = rng.choice(len(strengths), 2, replace=False)
        if rng.random() < strengths[i] / (strengths[i] + strengths[j]):
            wins[i, j] += 1
        else:
            wins[j, i] += 1
    return wins


def test_scores_are_those_of_a_slow_optimizer():
    wins = simulate([5, 3, 2, 1, 1, 0.5, 4], 150, seed=0)
    found = bradley_terry(list("abcdefg"), wins)
    assert list(found.values()) == pytest.approx(minorise_maximise(wins.tolist(), 2000), abs=1e-9)


def test_the_command_prints_the_best_first(tmp_path, monkeypatch, capsys):
    path = tmp_path / "judgments.csv"
    path.write_text("preferred,rejected\nb,a\nb,a\na,b\nb,a\n")
    monkeypatch.setattr(sys, "argv", ["bradley_terry", f"--preferences={path}"])
    command.main()
    lines = capsys.readouterr().out.splitlines()
    assert [line.strip("|").split("|")[0].strip() for line in lines] == ["item", "----", "b", "a"]
    assert [float(line.strip("|").split("|")[1]) for line in lines[2:]] == [75, 25]
    # Who never lost would be infinitely better.
    path.write_text("preferred,rejected\nb,a\n")
    with pytest.raises(SystemExit, match="never lost"):
        command.main()
