"""Computes batches in threads, ahead of their consumer."""

import collections
import concurrent.futures
import itertools
from collections.abc import Callable, Generator, Iterable

import numpy as np

Batch = dict[str, np.ndarray]

# One batch is read and tokenized while the pictures of the other are decoded on all cores; more
# would only take memory.
_PARALLEL_BATCHES = 2


def read_ahead(
    make_batch: Callable[[int], Batch], numbers: Iterable[int], ahead: int
) -> Generator[Batch, None, None]:
    """Returns a generator of `make_batch(number)` for each number, in order.

    The first ones are computed from now on, for example while a program compiles. `close` ends the
    threads.

    Args:
      make_batch: function that may run in several threads concurrently.
      numbers: its arguments.
      ahead: number of batches computed ahead of the yielded one.
    """

    def compute() -> Generator[Batch, None, None]:
        with concurrent.futures.ThreadPoolExecutor(_PARALLEL_BATCHES, "batches") as workers:
            submitted = (workers.submit(make_batch, number) for number in numbers)
            waiting = collections.deque(itertools.islice(submitted, ahead))
            try:
                yield {}  # Once the first ones are submitted.
                for batch in submitted:
                    waiting.append(batch)
                    yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                workers.shutdown(cancel_futures=True)

    batches = compute()
    next(batches)
    return batches
