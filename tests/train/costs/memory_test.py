"""Programs that do not fit in memory, and the options that steps are compiled with."""

import pytest

from tests import tiny_encoder as tiny
from xmodal.core.errors import UserError
from xmodal.train.costs import memory
from xmodal.train.costs.cost import Cost, format_costs


@pytest.mark.parametrize(
    ("what", "flag"),
    [(memory.STEP, "--config.batch_size (now 16)"), ("embedding", "(now {'shapes': 512})")],
)
def test_a_program_that_does_not_fit_names_what_to_change(what, flag):
    run = tiny.make_parts(tiny.make_config())
    cost = Cost(5 * 2**30, 4 * 2**30, 0, 2**30, 2e12, 3e9, None)
    memory.check_fits(cost, 2**40, what, run)
    with pytest.raises(UserError, match=f"The {what} does not fit: it needs 10.00 GiB") as error:
        memory.check_fits(cost, 8 * 2**30, what, run)
    assert "state and batch alone 5.00 GiB, per device (cpu)" in str(error.value)
    assert flag in str(error.value)
    header, row = format_costs({what: cost}, 20 * 2**30).splitlines()
    assert header.split()[-3:] == ["GB", "moved", "s"]
    assert row.endswith("5          4     1  10 (50%)      2         3")
