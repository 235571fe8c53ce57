"""Deeply nested calls do not map memory again and again."""

import resource
import threading

import pytest

from xmodal.base.interpreter import call_with_deep_stack


def nest(depth):
    """Calls a function a hundred times at a depth."""
    if depth:
        nest(depth - 1)
    else:
        for _ in range(100):
            callee()


def callee():
    pass


def count_faults(found):
    """Appends the page faults of calls at every depth, of which some meet the end of a chunk."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for depth in range(500):
        nest(depth)
    found.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)


def test_calls_at_any_depth_touch_little_new_memory():
    found = []
    # Tests have a deep stack, another thread does not.
    thread = threading.Thread(target=call_with_deep_stack, args=(count_faults, found))
    thread.start()
    thread.join()
    # CPython 3.11 to 3.13 have thousands without a deep stack.
    assert found[0] < 200


def test_arguments_results_and_errors_pass_through():
    assert call_with_deep_stack(sorted, [2, 1, 3], reverse=True) == [3, 2, 1]
    with pytest.raises(ZeroDivisionError):
        call_with_deep_stack(lambda: 1 / 0)
