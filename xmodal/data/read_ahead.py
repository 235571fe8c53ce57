"""Computes batches in threads, ahead of their consumer."""

import collections
import concurrent.futures
from collections.abc import Callable, Iterable, Iterator

import numpy as np

Batch = dict[str, np.ndarray]

# One batch is read and tokenized while the pictures of the other are decoded on all cores; more
# would only take memory.
_PARALLEL_BATCHES = 2


def read_ahead(
    make_batch: Callable[[int], Batch], numbers: Iterable[int], ahead: int
) -> Iterator[Batch]:
    """Yields `make_batch(number)` for each number, in order.

    Args:
      make_batch: function that may run in several threads concurrently.
      numbers: its arguments.
      ahead: number of batches computed ahead of the yielded one.
    """
    waiting: collections.deque[concurrent.futures.Future[Batch]] = collections.deque()
    with concurrent.futures.ThreadPoolExecutor(_PARALLEL_BATCHES, "batches") as workers:
        try:
            for number in numbers:
                waiting.append(workers.submit(make_batch, number))
                if len(waiting) > ahead:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            workers.shutdown(cancel_futures=True)
