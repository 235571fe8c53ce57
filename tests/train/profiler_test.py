import jax

from xmodal.train.profiler import profiler
from xmodal.train.sections import ProfileConfig


def run_steps(config, folder, steps):
    with profiler(config, str(folder)) as before:
        for step in range(steps):
            before(step)
            jax.numpy.ones(3).block_until_ready()
    return len(list(folder.glob("plugins/profile/*/*.xplane.pb")))


def test_the_named_steps_are_traced(tmp_path):
    assert run_steps(ProfileConfig(2, 2), tmp_path / "inside", 6) == 1
    # The run ends during the trace, or before it.
    assert run_steps(ProfileConfig(2, 9), tmp_path / "end", 4) == 1
    assert run_steps(ProfileConfig(9, 1), tmp_path / "late", 4) == 0
    assert run_steps(None, tmp_path / "none", 4) == 0
