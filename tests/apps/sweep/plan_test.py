"""The trials of a sweep; a folder is tied to one plan."""

import dataclasses

import pytest

from tests.apps.sweep.bag import SELECT
from xmodal.apps.sweep.plan import keep, make_plan, with_values
from xmodal.apps.sweep.space import read_space
from xmodal.core.errors import UserError

RATE, WIDTH = "optimizer.learning_rate", "model.text.encoder.width"


def change(plan, **changes):
    return dataclasses.replace(plan, **changes)


def test_more_trials_keep_those_before(plan):
    few, many = plan.trials(3), plan.trials(10)
    assert many[:3] == few
    assert len({each[RATE] for each in many}) == 10


def test_a_study_runs_the_same_draws_with_every_value(plan):
    studied = change(plan, studied=("batch_size", (16, 32, 64)))
    trials = studied.trials(4)
    assert len(trials) == 12
    for number, each in enumerate(trials):
        assert list(each) == ["batch_size", RATE, WIDTH] == list(studied.parameters)
        assert each["batch_size"] == (16, 32, 64)[number % 3]
        drawn = plan.trials(4)[number // 3]
        assert {path: each[path] for path in drawn} == drawn


def test_the_config_of_a_trial(plan):
    values = plan.trials(2)[1]
    config = plan.config_of("0001", values)
    assert config.optimizer.learning_rate == values[RATE]
    assert config.model.text.encoder.width == values[WIDTH]
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


LOSS = {"name": "softmax", "options": {"scale": 2.0}, "inputs": ["x"], "module": {"width": 8}}


@pytest.mark.parametrize(
    ("path", "before", "values", "after"),
    [
        ("tasks.t2t.loss", LOSS, {"name": "triplet"}, {"name": "triplet"}),
        ("tasks.t2t.loss", LOSS, {"name": "softmax"}, LOSS),
        (
            "optimizer",
            {"name": "adam", "options": {"b1": 0.5}, "learning_rate": 0.1},
            {"options": {"momentum": 0.9}, "name": "sgd"},
            {"name": "sgd", "options": {"momentum": 0.9}, "learning_rate": 0.1},
        ),
        (
            "optimizer.schedule",
            {"name": "staircase", "warmup_steps": 1, "rate": 0.7, "every": 2},
            {"name": "linear"},
            {"name": "linear", "warmup_steps": 1},
        ),
        (
            "model.text.encoder",
            {"name": "words", "width": 8, "dropout": 0.5},
            {"width": 16, "name": "rnn"},
            {"name": "rnn", "width": 16},
        ),
        (
            "model.similarity",
            {"name": "match_probability", "temperature": 0.1, "match_scale": 2.0},
            {"name": "dot"},
            {"name": "dot", "temperature": 0.1},
        ),
    ],
)
def test_another_entry_has_no_options_of_the_one_before(config, path, before, values, after):
    config = with_values(config, {path: before})
    section = with_values(config, {f"{path}.{key}": value for key, value in values.items()})
    for name in path.split("."):
        section = section[name]
    assert section.to_dict() == after


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (
            "optimzer.learning_rate",
            "'optimzer' in the path 'optimzer.learning_rate'; sections of config; .*'optimizer'",
        ),
        ("l2.scale", "'l2' in the path .*; sections of config; known"),
        (
            "optimizer.schedule.name.x",
            "'name' in the path .*; sections of config.optimizer.schedule; known",
        ),
    ],
)
def test_paths_into_nothing(config, path, message):
    with pytest.raises(UserError, match=message):
        with_values(config, {path: 1})


def test_a_folder_keeps_to_its_plan(plan, tmp_path):
    keep(plan, tmp_path)
    moved = plan.config.copy_and_resolve_references()
    moved.data.data_dir, moved.log_every = "/elsewhere", 7
    keep(change(plan, config=moved), tmp_path)

    longer = plan.config.copy_and_resolve_references()
    longer.total_steps = 8
    other = read_space({RATE: ("log", 1e-3, 1.0), "seed": ("choice", 1, 2)}, "")
    for changed, lines in (
        (change(plan, config=longer), ["config.total_steps: 4 -> 8"]),
        (change(plan, seed=1), ["draw_seed: 0 -> 1"]),
        (change(plan, select="shapes/rsum"), ["select: ", " -> shapes/rsum"]),
        (change(plan, studied=("seed", (0, 1))), ["study.seed: None -> [0, 1]"]),
        (
            change(plan, space=other),
            [
                f"space.{RATE}: ",
                "-> log:0.001:1.0",
                f"space.{WIDTH}: ",
                " -> None",
                "space.seed: None",
            ],
        ),
    ):
        with pytest.raises(UserError, match="has trials of another sweep") as caught:
            keep(changed, tmp_path)
        for line in lines:
            assert line in str(caught.value)
        assert "or use another --workdir" in str(caught.value)


def test_a_folder_keeps_to_its_records(config, tmp_path):
    """The folder of own data may have changed, which no value of the config says."""
    space = read_space({"seed": ("choice", 0, 1)}, "space")
    plan = make_plan(config, space, None, seed=0, select=None)
    ((name, digits),) = plan.records.items()
    assert name.startswith("crisscrossed_shapes/images/")
    assert len(digits) == 64
    for unknown in ({}, {name: "unknown"}):  # of a dataset that was prepared long ago
        keep(change(plan, records=unknown), tmp_path)
    keep(plan, tmp_path)
    with pytest.raises(UserError, match=f"records.{name}: {digits} -> {'0' * 64}"):
        keep(change(plan, records={name: "0" * 64}), tmp_path)


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (
            {"optimizer.learning_rte": ("log", 1e-3, 1.0)},
            "The search space has optimizer.learning_rte=0.001. Unknown key.*"
            "Did you mean 'learning_rate'?",
        ),
        (
            {"model.text.encoder.dropout": ("choice", 0.5, 1.5)},
            r"dropout=1.5. .* is 1.5; it must be",
        ),
        ({"batch_size": ("choice", 16, 1024)}, "batch_size=1024.* is more than the 150 training"),
        ({"optimzer.learning_rate": ("choice", 1)}, "Did you mean 'optimizer'"),
        (
            {"optimizer.schedule": ("choice", {"name": "cosine", "warmup_steps": "90 epochs"})},
            r"warmup_steps=\d+ leaves nothing of config.total_steps",
        ),
    ],
)
def test_values_that_the_config_refuses(config, space, message):
    with pytest.raises(UserError, match=message):
        make_plan(config, read_space(space, "space"), None, seed=0, select=None)


@pytest.mark.slow
def test_the_metric_is_known_before_training(config):
    space = read_space({"seed": ("choice", 0, 1)}, "space")

    def select(given):
        return make_plan(config, space, None, seed=0, select=given).select

    assert select(None) == SELECT
    assert select("shapes/t2t/recall@5") == "shapes/t2t/recall@5"
    assert select("shapes/t2t") == "shapes/t2t/recall@1"  # its first metric
    for wrong, message in (
        ("shape/rsum", "--select=shape/rsum; known: .*Did you mean 'shapes'"),
        ("shapes/t2t/recal@5", "did you mean 'shapes/t2t/recall@5'"),
    ):
        with pytest.raises(UserError, match=message):
            select(wrong)


@pytest.mark.parametrize(
    ("mode", "metric", "of_plan", "sign"),
    [
        ("max", "recall@5", "max", 1),
        ("max", "median_rank", "min", -1),
        ("last", "median_rank", "last", -1),
    ],
)
def test_the_metric_decides_which_trials_are_better(config, mode, metric, of_plan, sign):
    config.select.mode = mode
    space = read_space({"seed": ("choice", 0, 1)}, "space")
    plan = make_plan(config, space, None, seed=0, select=f"shapes/t2t/{metric}")
    assert (plan.mode, plan.sign) == (of_plan, sign)
