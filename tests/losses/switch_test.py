"""Functions selected by name, or by a name that depends on the step."""

import jax
import jax.numpy as jnp

from xmodal.losses.switch import Choice, switch

FUNCTIONS = {"one": lambda: jnp.float32(1), "two": lambda: jnp.float32(2)}


def test_a_name_calls_its_function():
    assert switch("two", FUNCTIONS) == 2


def test_a_choice_is_made_inside_jit():
    run = jax.jit(lambda index: switch(Choice(("two", "one"), index), FUNCTIONS))
    assert [int(run(index)) for index in (0, 1)] == [2, 1]
