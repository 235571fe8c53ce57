"""The trials of a sweep; a folder is tied to one plan."""

import csv
import dataclasses

import pytest

from xmodal.apps.sweep.distributions import Choice, LogUniform
from xmodal.apps.sweep.plan import check_same, save, with_values
from xmodal.base.config import UserError

RATE, WIDTH = "optimizer.learning_rate", "model.text.encoder.width"


def change(plan, **changes):
    return dataclasses.replace(plan, **changes)


def test_more_trials_keep_those_before(plan):
    few, many = list(plan.trials(3)), list(plan.trials(10))
    assert many[:3] == few
    assert [each.name for each in few] == ["0000", "0001", "0002"]
    assert len({each.values[RATE] for each in many}) == 10


def test_a_study_runs_the_same_draws_with_every_value(plan):
    studied = change(plan, studied=("batch_size", Choice((16, 32, 64))))
    trials = list(studied.trials(4))
    assert [each.number for each in trials] == list(range(12))
    for each in trials:
        assert list(each.values) == ["batch_size", RATE, WIDTH] == list(studied.parameters)
        assert each.values["batch_size"] == (16, 32, 64)[each.number % 3]
        drawn = list(plan.trials(4))[each.draw].values
        assert {path: each.values[path] for path in drawn} == drawn


def test_the_config_of_a_trial(plan):
    trial = list(plan.trials(2))[1]
    config = plan.config_of(trial)
    assert config.optimizer.learning_rate == trial.values[RATE]
    assert config.model.text.encoder.width == trial.values[WIDTH]
    assert config.name == "bag_0001"
    assert config.select.to_dict() == {"metric": plan.select, "mode": "max"}
    assert plan.config.optimizer.learning_rate == 1e-2  # itself unchanged


def test_sections_and_keys_that_a_file_leaves_out_can_be_drawn(config):
    values = {"l2": {"pattern": "text/", "scale": 0.1}, "model.text.encoder.dropout": 0.5}
    changed = with_values(config, values)
    assert changed.l2.scale == 0.1
    assert changed.model.text.encoder.dropout == 0.5
    assert config.l2 is None


def test_a_value_within_a_drawn_section_is_set_in_it(config):
    section = {"optimizer.schedule": {"name": "staircase", "rate": 0.7}}
    value = {"optimizer.schedule.rate": 0.5}
    for values in (section | value, value | section):
        schedule = with_values(config, values).optimizer.schedule
        assert schedule.to_dict() == {"name": "staircase", "rate": 0.5}


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (
            "optimzer.learning_rate",
            "config.optimzer is missing; sections .*'optimizer'",
        ),
        ("l2.scale", "config.l2 is not a section"),
        ("optimizer.schedule.name.x", "config.optimizer.schedule.name is not a section"),
    ],
)
def test_paths_into_nothing(config, path, message):
    with pytest.raises(UserError, match=message):
        with_values(config, {path: 1})


def test_the_table_of_draws(plan, tmp_path):
    save(plan, tmp_path, plan.trials(3))
    with open(tmp_path / "draws.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    for row, trial in zip(rows, plan.trials(3), strict=True):
        assert (row["trial"], row["draw"]) == (trial.name, str(trial.draw))
        assert float(row[RATE]) == trial.values[RATE]
        assert int(row[WIDTH]) == trial.values[WIDTH]


def test_a_folder_keeps_to_its_plan(plan, tmp_path):
    check_same(plan, tmp_path)
    save(plan, tmp_path, plan.trials(3))
    moved = plan.config.copy_and_resolve_references()
    moved.data.data_dir, moved.log_every = "/elsewhere", 7
    check_same(change(plan, config=moved), tmp_path)

    longer = plan.config.copy_and_resolve_references()
    longer.total_steps = 8
    other = {RATE: LogUniform(1e-3, 1.0), "seed": Choice((1, 2))}
    for changed, lines in (
        (change(plan, config=longer), ["config.total_steps: 4 -> 8"]),
        (change(plan, seed=1), ["draw_seed: 0 -> 1"]),
        (change(plan, select="shapes/rsum"), ["select: ", ' -> "shapes/rsum"']),
        (change(plan, studied=("seed", Choice((0, 1)))), ["study.seed: None -> [0, 1]"]),
        (
            change(plan, space=other),
            [f"space.{RATE}: ", '"high": 1.0', f"space.{WIDTH}: ", " -> None", "space.seed: None"],
        ),
    ):
        with pytest.raises(UserError, match="has trials of another sweep") as caught:
            check_same(changed, tmp_path)
        for line in lines:
            assert line in str(caught.value)
        assert "or use another --workdir" in str(caught.value)
