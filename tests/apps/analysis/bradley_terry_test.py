"""Bradley-Terry scores against a slow optimizer."""

import sys

import numpy as np
import pytest

from xmodal.apps.analysis import bradley_terry as command
from xmodal.apps.analysis.bradley_terry import bradley_terry


def minorize_maximize(wins, rounds):
    """Hunter's algorithm (2004); slow but reliable."""
    scores = np.full(len(wins), 1.0)
    for _ in range(rounds):
        for i in range(len(wins)):
            met = (wins[i] + wins[:, i]) / (scores[i] + scores)
            scores[i] = wins[i].sum() / met.sum()
        scores *= 100 / scores.sum()
    return scores


def test_scores_are_those_of_a_slow_optimizer():
    rng, strengths = np.random.default_rng(0), [5, 3, 2, 1, 1, 0.5, 4]
    preferences, wins = [], np.zeros((7, 7))
    for _ in range(150):
        i, j = rng.choice(7, 2, replace=False)
        i, j = (i, j) if rng.random() < strengths[i] / (strengths[i] + strengths[j]) else (j, i)
        preferences.append(("abcdefg"[i], "abcdefg"[j]))
        wins[i, j] += 1
    found = bradley_terry(preferences)
    assert list(found) == list("abcdefg")
    assert list(found.values()) == pytest.approx(minorize_maximize(wins, 2000), abs=1e-6)
    rare = bradley_terry([("a", "b")] * 100_000 + [("b", "a")])
    assert rare["a"] / rare["b"] == pytest.approx(100_000, rel=1e-6)


def test_the_command_prints_the_best_first(tmp_path, monkeypatch, capsys):
    path = tmp_path / "judgments.csv"
    path.write_text("preferred,rejected\nb,a\nb,a\na,b\nb,a\n")
    monkeypatch.setattr(sys, "argv", ["bradley_terry", f"--preferences={path}"])
    command.main()
    lines = capsys.readouterr().out.splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert cells[2:] == [["b", "75.00"], ["a", "25.00"]]
    # Who never lost would be infinitely better.
    path.write_text("preferred,rejected\nb,a\n")
    with pytest.raises(SystemExit, match="never lost"):
        command.main()
