"""Computes batches in threads or in other processes, ahead of their consumer."""

import atexit
import collections
import concurrent.futures
import contextlib
import gc
import itertools
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterable, Sequence

import jax
import numpy as np
from absl import flags

from xmodal.data.pixels import images

Batch = dict[str, np.ndarray]
MakeBatch = Callable[[int], Batch]

# One batch is read and tokenized while the pictures of the other are decoded on all cores; more
# would only take memory.
_PARALLEL_BATCHES = 2


def read_ahead(
    make_batch: MakeBatch, numbers: Iterable[int], ahead: int
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


def read_in_processes(
    make: Callable[[], MakeBatch], numbers: Sequence[int], workers: int
) -> Generator[Batch, None, None]:
    """Returns the batches of `read_ahead` from other processes, through shared memory.

    Threads of one process wait for each other: a picture of 380 pixels holds the interpreter's lock
    for a fifth of its time. Each process computes whole batches; `close` ends it.

    Args:
      make: returns `make_batch`; it is pickled, and called in every process.
      numbers: see `read_ahead`.
      workers: number of processes.
    """
    import grain  # It takes a second.
    from grain.multiprocessing import SharedMemoryArray

    # A thread of grain frees the arrays; at exit, wait for the last ones.
    SharedMemoryArray.enable_async_del()
    atexit.register(SharedMemoryArray._del_thread_pool.apply, int)
    if not flags.FLAGS.is_parsed():  # Outside of a command; it reads flags of its own.
        flags.FLAGS.mark_as_parsed()
    batches = grain.MapDataset.source(_Batches(make, numbers)).to_iter_dataset(
        grain.ReadOptions(_PARALLEL_BATCHES, _PARALLEL_BATCHES)
    )
    processes = grain.MultiprocessingOptions(workers, per_worker_buffer_size=1)
    batches = batches.mp_prefetch(processes, worker_init_fn=_start_worker)
    # Its thread starts the processes now, not when the first batch is asked for.
    ahead = grain.experimental.ThreadPrefetchIterDataset(batches, prefetch_buffer_size=1)

    def wait() -> Generator[Batch, None, None]:
        try:
            with contextlib.closing(iter(ahead)) as found:
                found.start_prefetch()
                yield {}
                yield from found
        finally:
            del found
            gc.collect()  # Frees the last batches, which cycles of its iterators hold.

    waiting = wait()
    next(waiting)  # So that `close` ends the processes.
    return waiting


class _Batches:
    """The batches of some numbers, whose function is made by the process that computes them."""

    def __init__(self, make: Callable[[], MakeBatch], numbers: Sequence[int]) -> None:
        self._make, self._numbers = make, numbers
        self._made: MakeBatch | None = None

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, at: int) -> Batch:
        with _MAKING:
            self._made = self._made or self._make()
        return self._made(self._numbers[at])


_MAKING = threading.Lock()


def _start_worker(index: int, count: int) -> None:
    """Shares the cores among the processes, leaves signals to the parent, and ends with it."""
    del index
    images.use_threads(-(-(os.cpu_count() or 1) // count))
    jax.config.update("jax_platforms", "cpu")  # The accelerator is the parent's.
    for number in (signal.SIGINT, signal.SIGTERM):  # Schedulers send it to all processes.
        signal.signal(number, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def end() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=end, daemon=True).start()
