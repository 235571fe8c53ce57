"""Functions selected by name, or by a name that depends on the step."""

import jax
import jax.numpy as jnp
import pytest

from xmodal.base.config import UserError
from xmodal.losses.switch import Choice, switch

FUNCTIONS = {"one": lambda: jnp.float32(1), "two": lambda: jnp.float32(2)}


def test_a_name_calls_its_function():
    assert switch("two", FUNCTIONS, "config.x") == 2


def test_a_choice_is_made_inside_jit():
    run = jax.jit(lambda index: switch(Choice(("two", "one"), index), FUNCTIONS, "config.x"))
    assert [int(run(index)) for index in (0, 1)] == [2, 1]


@pytest.mark.parametrize("name", ["tow", Choice(("one", "tow"), 0)])
def test_unknown_names_list_the_known_ones(name):
    with pytest.raises(UserError, match="'tow' in config.x.*Did you mean 'two'"):
        switch(name, FUNCTIONS, "config.x")
