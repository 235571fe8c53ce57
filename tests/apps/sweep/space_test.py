"""Search spaces: flags and config files, names of entries, draws."""

import dataclasses

import pytest

from xmodal.apps.sweep.plan import Plan, describe, parse_space, with_values
from xmodal.core.errors import UserError

RATE = "optimizer.learning_rate"


def plan_of(**changes):
    plan = Plan(None, {}, None, 0, "a/recall@1", "max")
    return dataclasses.replace(plan, **changes)


def test_draws_depend_on_the_seed_alone_and_stay_within_their_bounds():
    plan = plan_of(space={RATE: ("log", 1e-4, 1e-2), "batch_size": ("choice", 64, 128)})
    many = list(plan.preview(20))
    assert list(plan.preview(3)) == many[:3]
    assert len({each[RATE] for each in many}) == 20
    assert all(1e-4 <= each[RATE] <= 1e-2 for each in many)
    assert {each["batch_size"] for each in many} == {64, 128}
    assert list(dataclasses.replace(plan, seed=1).preview(3)) != many[:3]
    assert len(list(dataclasses.replace(plan, sampler="tpe").preview(4))) == 4


def test_studies_share_the_draws_of_a_search():
    plan = plan_of(space={RATE: ("log", 1e-4, 1e-2), "batch_size": ("int", 1, 999)})
    plain = list(plan.preview(3))
    studied = dataclasses.replace(
        plan, studied=("a", ({"name": "x"}, "y")), absent={1: {"batch_size"}}
    )
    found = list(studied.preview(3))
    assert found[::2] == [{"a": {"name": "x"}} | each for each in plain]
    assert found[1::2] == [{"a": "y", RATE: each[RATE]} for each in plain]


def test_a_space_of_few_combinations_is_drawn_once():
    flags = ["seed:choice:0,1,2", "l2:choice:None,{'pattern': 'text/'}", "batch_size:int:3:4"]
    plan = plan_of(space=dict(map(parse_space, flags)))
    drawn = list(plan.preview(100))
    assert len(drawn) == len({repr(each) for each in drawn}) == 12


def test_another_entry_has_no_options_of_the_one_before(config):
    before = {"name": "adam", "options": {"b1": 0.5}, "learning_rate": 0.1}
    config = with_values(config, {"optimizer": before})
    drawn = {"optimizer.options": {"momentum": 0.9}, "optimizer.name": "sgd"}
    expected = {"name": "sgd", "options": {"momentum": 0.9}, "learning_rate": 0.1}
    assert with_values(config, drawn).optimizer.to_dict() == expected


def test_a_section_may_leave_out_those_of_drawn_values(config):
    values = {"tasks.t2t.loss": {"name": "triplet"}, "tasks.t2t.loss.options.margin": 0.3}
    expected = {"name": "triplet", "options": {"margin": 0.3}}
    assert with_values(config, values).tasks.t2t.loss.to_dict() == expected
    with pytest.raises(UserError, match="config.model.text.projection is None. Draw"):
        with_values(config, {"model.text.projection.width": 8})


def test_flags_and_mistakes_in_them():
    text = "model.text.encoder.dropout:uniform:0:0.5"
    path, found = parse_space(f"config.{text}")
    assert found == ("uniform", 0, 0.5)
    assert f"{path}:{describe(found)}" == text
    _, found = parse_space("optimizer.schedule:choice:None,{'name': 'cosine'}")
    assert found == ("choice", None, {"name": "cosine"})
    for wrong, message in (
        ("seed:int:1", "--space=seed:int:1 must be PATH:int:LOW:HIGH"),
        (f"{RATE}:log:1e-2:1e-4", "low=0.01, high=0.0001"),
    ):
        with pytest.raises(UserError, match=message):
            parse_space(wrong)
