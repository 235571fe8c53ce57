"""Settings of Python for programs that import JAX and trace models."""

import atexit
import gc
from collections.abc import Callable
from typing import ParamSpec, TypeVar

_OBJECTS_PER_COLLECTION = 1_000_000  # new ones; Python's own number is 700 to 2,000
_STACK_VALUES = 2**17  # 1 MiB

_P = ParamSpec("_P")
_T = TypeVar("_T")


def collect_rarely() -> None:
    """Makes Python search for unreachable cycles less often, and no more when the process ends.

    Importing JAX and tracing a model make over half a million objects, nearly all of which stay:
    searching them again and again, and three times at the end, takes a quarter of a short command.
    """
    gc.set_threshold(_OBJECTS_PER_COLLECTION)
    atexit.register(gc.freeze)


def call_with_deep_stack(function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Calls a function whose calls nest deeply, such as one that traces models.

    CPython maps its stack of frames in chunks of 16 KiB, about fifty frames. A call at the end of a
    chunk maps the next one, and the return unmaps it, each time: a twelfth of the CPU time of a
    short run. The frame of this function claims a stack of 1 MiB, so that its chunk has 2 MiB, of
    which the rest is enough for all frames. Memory that no frame has touched takes no space.
    """
    return function(*args, **kwargs)


call_with_deep_stack.__code__ = call_with_deep_stack.__code__.replace(co_stacksize=_STACK_VALUES)
