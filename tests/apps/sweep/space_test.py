"""Search spaces from flags and config files, and their draws."""

import numpy as np
import pytest

from xmodal.apps.sweep import space as space_lib
from xmodal.apps.sweep.distributions import Choice, Integers, LogUniform, Uniform
from xmodal.base.config import UserError

FLAGS = {
    "optimizer.learning_rate:log:1e-4:1e-2": LogUniform(1e-4, 1e-2),
    "config.model.text.encoder.dropout:uniform:0:0.5": Uniform(0.0, 0.5),
    "model.text.encoder.layers:int:1:3": Integers(1, 3),
    "total_steps:int:1:1234567": Integers(1, 1_234_567),
    "batch_size:choice:64,128": Choice((64, 128)),
    "tasks.i2t.loss.name:choice:pearson,covariance": Choice(("pearson", "covariance")),
    "l2:choice:None,{'pattern': 'text/', 'scale': 0.1}": Choice(
        (None, {"pattern": "text/", "scale": 0.1})
    ),
    "data.text.lower_case:choice:true,False": Choice((True, False)),
}


@pytest.mark.parametrize("text", FLAGS)
def test_a_flag_and_its_section_are_the_same(text):
    path, found = space_lib.parse_space(text)
    assert path == text.partition(":")[0].removeprefix("config.")
    assert found == FLAGS[text]
    section = space_lib.to_section(found)
    assert space_lib.read_space({path: section}, "get_space()") == {path: found}
    again = space_lib.parse_space(f"{path}:{space_lib.describe(found)}")
    assert again == (path, found)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("optimizer.learning_rate", "must be PATH:NAME:VALUES"),
        ("seed:chioce:1,2", "Unknown name 'chioce'.*Did you mean 'choice'?"),
        ("seed:int:1", "needs the smallest and the largest value"),
        ("seed:int:1:2.5", "high is 2.5; it must be an integer"),
        ("optimizer.learning_rate:log:0:1", "low is 0.0; it must be more than 0"),
        ("optimizer.learning_rate:log:1e-2:1e-4", "low=0.01 is not below high=0.0001"),
        ("seed:choice:1,1", "has a value twice"),
    ],
)
def test_mistakes_name_the_flag(text, message):
    with pytest.raises(UserError, match=message) as caught:
        space_lib.parse_space(text)
    assert f"--space={text}" in str(caught.value)


def test_mistakes_of_a_config_file():
    with pytest.raises(UserError, match=r"get_space\(\)\['seed'\].*Did you mean 'values'"):
        space_lib.read_space({"seed": {"name": "choice", "value": [1]}}, "get_space()")
    with pytest.raises(UserError, match="must map paths"):
        space_lib.read_space(["seed"], "get_space()")


def test_values_of_a_study():
    assert space_lib.parse_study("seed=0,1,2") == ("seed", Choice((0, 1, 2)))
    for text in ("seed", "seed=", "seed=1,1"):
        with pytest.raises(UserError, match=f"--study={text}"):
            space_lib.parse_study(text)


def test_a_draw_depends_on_seed_index_and_path_alone():
    path = "optimizer.learning_rate"
    space = {path: LogUniform(1e-4, 1e-2), "batch_size": Choice((64, 128, 256))}
    # These must never change: a sweep may be continued years later on another machine.
    assert space_lib.draw(space, 0, 0) == {path: 0.0002496, "batch_size": 64}
    assert space_lib.draw(space, 0, 3) == {path: 0.0055, "batch_size": 128}
    larger = {"seed": Integers(0, 9)} | space
    for index in range(20):
        drawn = space_lib.draw(larger, 7, index)
        assert {name: drawn[name] for name in space} == space_lib.draw(space, 7, index)


def test_draws_of_parameters_are_uniform_and_independent():
    space = {name: Uniform(0.0, 1.0) for name in ("a", "b")}
    drawn = np.array([list(space_lib.draw(space, 0, i).values()) for i in range(2000)])
    np.testing.assert_allclose(drawn.mean(axis=0), 0.5, atol=0.03)
    np.testing.assert_allclose(drawn.std(axis=0), 12**-0.5, atol=0.02)
    assert abs(np.corrcoef(drawn.T)[0, 1]) < 0.07
    other = np.array([list(space_lib.draw(space, 1, i).values()) for i in range(2000)])
    assert abs(np.corrcoef(drawn[:, 0], other[:, 0])[0, 1]) < 0.07
