"""Computes batches in threads or in other processes, ahead of their consumer."""

import atexit
import collections
import concurrent.futures
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

    Threads of one process wait for its interpreter lock, which limits hosts with many cores. Each
    process computes whole batches; `close` ends the processes.

    Args:
      make: returns `make_batch`; it is pickled, and called in every process.
      numbers: see `read_ahead`.
      workers: number of processes.
    """
    import grain  # Slow to import.
    from grain.multiprocessing import SharedMemoryArray

    # grain frees the arrays in a thread, which must finish before the process exits.
    SharedMemoryArray.enable_async_del()
    atexit.register(SharedMemoryArray._del_thread_pool.apply, int)
    if not flags.FLAGS.is_parsed():  # grain reads absl flags, which only commands parse.
        flags.FLAGS.mark_as_parsed()
    batches = grain.MapDataset.source(_Batches(make, numbers)).to_iter_dataset(
        grain.ReadOptions(_PARALLEL_BATCHES, _PARALLEL_BATCHES)
    )
    processes = grain.MultiprocessingOptions(workers, per_worker_buffer_size=1)
    batches = batches.mp_prefetch(processes, worker_init_fn=_start_worker)
    # Starts the processes now, not when the first batch is requested.
    prefetched = grain.experimental.ThreadPrefetchIterDataset(batches, prefetch_buffer_size=1)

    def wait() -> Generator[Batch, None, None]:
        found = iter(prefetched)
        found.start_prefetch()
        try:
            yield {}
            yield from found
        finally:
            found.close()
            del found
            gc.collect()  # Reference cycles in grain's iterators keep the last batches alive.

    waiting = wait()
    next(waiting)  # So that `close` ends the processes.
    return waiting


_MAKING = threading.Lock()  # A lock cannot be pickled with `_Batches`.


class _Batches:
    """Batches by number; the process that computes them makes their function."""

    def __init__(self, make: Callable[[], MakeBatch], numbers: Sequence[int]) -> None:
        self._make, self._numbers = make, numbers
        self._made: MakeBatch | None = None

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, at: int) -> Batch:
        with _MAKING:
            self._made = self._made or self._make()
        return self._made(self._numbers[at])


def _start_worker(index: int, count: int) -> None:
    """Shares the cores among the processes, leaves signals to the parent, and ends with it."""
    del index
    images.set_threads(-(-(os.cpu_count() or 1) // count))
    jax.config.update("jax_platforms", "cpu")  # The accelerator is the parent's.
    for number in (signal.SIGINT, signal.SIGTERM):  # Schedulers send it to all processes.
        signal.signal(number, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def end() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=end, daemon=True).start()
