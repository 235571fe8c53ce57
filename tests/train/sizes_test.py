"""Sizes that follow from the number of training examples."""

import pytest

from xmodal.train.sizes import resolve_sizes


@pytest.mark.parametrize(
    ("examples", "batch_size", "total_steps", "every"),
    [
        (0, 4, "60 epochs", "10 epochs"),
        (31, 4, "60 epochs", "10 epochs"),
        (32, 16, "60 epochs", "10 epochs"),
        (199, 16, "60 epochs", "10 epochs"),
        (200, 32, "60 epochs", "10 epochs"),
        (1999, 32, "60 epochs", "10 epochs"),
        (2000, 64, "30 epochs", "3 epochs"),
        (49_999, 64, "30 epochs", "3 epochs"),
        (50_000, 64, "10 epochs", "1 epochs"),
    ],
)
def test_auto_depends_on_the_examples(examples, batch_size, total_steps, every):
    config = {
        "batch_size": "auto",
        "total_steps": "auto",
        "checkpoint": {"every": "auto", "keep_last": 3},
        "evals": {"a": {"every": "auto", "batch_size": 8}, "b": {"every": 5}, "c": "auto"},
        "tasks": {"t": {"loss": {"options": {"engine": "auto"}}}},
    }
    before = repr(config)
    assert resolve_sizes(config, examples) == config | {
        "batch_size": batch_size,
        "total_steps": total_steps,
        "checkpoint": {"every": every, "keep_last": 3},
        "evals": {"a": {"every": every, "batch_size": 8}, "b": {"every": 5}, "c": "auto"},
    }
    assert repr(config) == before


def test_a_share_of_the_epochs():
    config = {"batch_size": "auto", "total_steps": "auto/3", "checkpoint": {"every": "auto/5"}}
    for examples, batch_size, total_steps, every in (
        (600, 32, "20 epochs", "2 epochs"),
        (2000, 64, "10 epochs", "0.6 epochs"),
        (50_000, 64, "3.333 epochs", "0.2 epochs"),
    ):
        assert resolve_sizes(config, examples) == {
            "batch_size": batch_size, "total_steps": total_steps, "checkpoint": {"every": every}
        }  # fmt: skip
    for other in ("auto/0", "auto/", "automatic", "auto/2 epochs"):
        assert resolve_sizes({"total_steps": other}, 600) == {"total_steps": other}


def test_everything_else_stays():
    sections = {"batch_size": 7, "data": {"every": "auto"}}
    assert resolve_sizes(sections, 10) == sections
