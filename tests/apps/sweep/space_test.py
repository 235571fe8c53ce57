"""Search spaces from flags and config files, and their draws."""

import numpy as np
import pytest
from optuna.distributions import FloatDistribution, IntDistribution

from xmodal.apps.sweep import space as space_lib
from xmodal.apps.sweep.space import choices
from xmodal.core.errors import UserError

FLAGS = {
    "optimizer.learning_rate:log:1e-4:1e-2": FloatDistribution(1e-4, 1e-2, log=True),
    "config.model.text.encoder.dropout:uniform:0:0.5": FloatDistribution(0.0, 0.5),
    "model.text.encoder.layers:int:1:3": IntDistribution(1, 3),
    "total_steps:int:1:1234567": IntDistribution(1, 1_234_567),
    "batch_size:choice:64,128": choices((64, 128)),
    "tasks.i2t.loss.name:choice:pearson,covariance": choices(("pearson", "covariance")),
    "l2:choice:None,{'pattern': 'text/', 'scale': 0.1}": choices(
        (None, {"pattern": "text/", "scale": 0.1})
    ),
    "data.text.lower_case:choice:true,False": choices((True, False)),
}


@pytest.mark.parametrize("text", FLAGS)
def test_a_flag_and_its_description_are_the_same(text):
    path, found = space_lib.parse_space(text)
    assert path == text.partition(":")[0].removeprefix("config.")
    assert found == FLAGS[text]
    again = space_lib.parse_space(f"{path}:{space_lib.describe(found)}")
    assert again == (path, found)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("optimizer.learning_rate", "Unknown name ''"),
        ("seed:chioce:1,2", "Unknown name 'chioce'.*Did you mean 'choice'?"),
        ("seed:int:1", "needs the smallest and the largest value"),
        ("seed:int:1:2.5", "is 2.5; it must be an integer"),
        ("optimizer.learning_rate:uniform:nan:1", "A bound of .* is 'nan'; it must be a number"),
        ("optimizer.learning_rate:log:1:inf", "A bound of .* is 'inf'; it must be a number"),
        ("optimizer.learning_rate:log:1:1e999", "A bound of .* is inf; it must be a finite"),
        ("optimizer.learning_rate:log:0:1", "low"),
        ("optimizer.learning_rate:log:1e-2:1e-4", "low=0.01, high=0.0001"),
        ("seed:choice:1,1", "has a value twice"),
    ],
)
def test_mistakes_name_the_flag(text, message):
    with pytest.raises(UserError, match=message) as caught:
        space_lib.parse_space(text)
    assert f"--space={text}" in str(caught.value)


def test_the_space_of_a_config_file():
    given = {"seed": ("int", 0, 3), "l2": ("choice", None, {"scale": 0.1})}
    found = {"seed": IntDistribution(0, 3), "l2": choices((None, {"scale": 0.1}))}
    assert space_lib.read_space(given, "get_space()") == found
    with pytest.raises(UserError, match=r"get_space\(\)\['seed'\].*Did you mean 'choice'"):
        space_lib.read_space({"seed": ("choise", 1)}, "get_space()")
    with pytest.raises(UserError, match=r"get_space\(\)\['seed'\] is nan"):
        space_lib.read_space({"seed": ("uniform", float("nan"), 1.0)}, "get_space()")
    for wrong in (["seed"], {"seed": 1}):
        with pytest.raises(UserError, match="must map paths"):
            space_lib.read_space(wrong, "get_space()")


def test_a_draw_depends_on_seed_index_and_path_alone():
    path = "optimizer.learning_rate"
    space = {path: FloatDistribution(1e-4, 1e-2, log=True), "batch_size": choices((64, 128, 256))}
    larger = {"seed": IntDistribution(0, 9)} | space
    few = space_lib.draw(space, 7, 5)
    for one, other in zip(few, space_lib.draw(larger, 7, 20), strict=False):
        assert {name: other[name] for name in space} == one
    assert few != space_lib.draw(space, 8, 5)
    assert space_lib.draw({}, 0, 2) == [{}, {}]


@pytest.mark.parametrize(
    "flags",
    [
        ["seed:choice:0,1,2"],
        ["seed:int:0:2"],
        ["seed:choice:0,1,2", "l2:choice:None,{'pattern': 'text/'}", "batch_size:int:3:4"],
    ],
)
def test_a_space_of_few_combinations_is_drawn_once(flags):
    space = dict(map(space_lib.parse_space, flags))
    size = 3 * 4 ** (len(flags) > 1)
    orders = []
    for seed in range(20):
        drawn = space_lib.draw(space, seed, size)
        assert len({repr(each) for each in drawn}) == size
        assert space_lib.draw(space, seed, 2) == drawn[:2]
        assert space_lib.draw(space, seed, 100) == drawn
        assert all(list(each) == list(space) for each in drawn)
        orders.append(repr(drawn))
    assert len(set(orders)) > 3


def test_a_choice_beside_a_range_takes_each_value_as_often_as_the_others():
    space = {"x": FloatDistribution(0.0, 1.0), "seed": choices((0, 1, 2))}
    drawn = space_lib.draw(space, 0, 9)
    assert len({each["x"] for each in drawn}) == 9
    for start in (0, 3, 6):
        assert sorted(each["seed"] for each in drawn[start : start + 3]) == [0, 1, 2]
    large = {"seed": IntDistribution(0, 10**6)}
    assert len(space_lib.draw(large, 0, 5)) == 5


def test_draws_stay_within_their_bounds_and_have_four_digits():
    space = {"x": FloatDistribution(0.1000004, 0.1000006), "y": FloatDistribution(0.0, 0.5)}
    for drawn in space_lib.draw(space, 0, 50):
        assert 0.1000004 <= drawn["x"] <= 0.1000006
        assert drawn["y"] == float(f"{drawn['y']:.4g}")


def test_draws_of_parameters_are_uniform_and_independent():
    space = {name: FloatDistribution(0.0, 1.0) for name in ("a", "b")}
    drawn = np.array([list(each.values()) for each in space_lib.draw(space, 0, 2000)])
    np.testing.assert_allclose(drawn.mean(axis=0), 0.5, atol=0.03)
    np.testing.assert_allclose(drawn.std(axis=0), 12**-0.5, atol=0.02)
    assert abs(np.corrcoef(drawn.T)[0, 1]) < 0.07
    other = np.array([list(each.values()) for each in space_lib.draw(space, 1, 2000)])
    assert abs(np.corrcoef(drawn[:, 0], other[:, 0])[0, 1]) < 0.07
