"""Builds with Apache Beam workers, each part being read and checked by one of them.

Each part writes its result to a file in the build's folder, which all workers can access. A part
that is repeated because its worker died writes the same file again.
"""

import contextlib
import functools
import itertools
import pickle
import signal
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from etils import epath

from data_prep.building.record_check import RecordCheck
from data_prep.building.record_counts import Record
from data_prep.building.record_parts import Part, PartedRecords, Result, Workers
from xmodal.core.errors import UnexpectedFilesError

if TYPE_CHECKING:
    import apache_beam as beam

_ERROR = "error"


class PartFiles(Sequence[Any]):
    """Values by part number, each in its own file.

    Args:
      folder: folder of the files, which need not exist.
      count: number of parts.
    """

    def __init__(self, folder: epath.Path, count: int) -> None:
        self._folder, self._count = folder, count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: Any) -> Any:
        if not 0 <= number < self._count:
            raise IndexError(number)
        return pickle.loads((self._folder / str(number)).read_bytes())

    def write(self, number: int, value: Any) -> None:
        """Writes the value of a part atomically."""
        _write(self._folder / str(number), value)

    def write_error(self, error: Exception) -> None:
        """Records why a part failed."""
        _write(self._folder / _ERROR, error)

    def error(self) -> Exception | None:
        """Returns the error of a part; None if there was none."""
        path = self._folder / _ERROR
        return pickle.loads(path.read_bytes()) if path.exists() else None

    def are_complete(self) -> bool:
        """Whether every part has its value."""
        return all((self._folder / str(number)).exists() for number in range(self._count))


class BeamWorkers(Workers):
    """The workers of a Beam runner.

    Args:
      folder: folder of the build, for files between its steps.
      runner: Beam's runner; None for the one in the options.
      options: Beam's `PipelineOptions`.
    """

    def __init__(self, folder: epath.Path, runner: Any, options: Any) -> None:
        self._folder, self._runner, self._options = folder / "parts", runner, options
        self._numbers = itertools.count()

    def map(self, function: Callable[[Part], Result], parts: Sequence[Part]) -> Iterator[Result]:
        """See `Workers`; runs a separate pipeline."""
        import apache_beam as beam

        values = self._files(len(parts))
        try:
            with (
                stopped_by_dead_workers(),
                beam.Pipeline(runner=self._runner, options=self._options) as pipeline,
            ):
                work = beam.Map(functools.partial(_write_value, function, values))
                _ = pipeline | beam.Create(list(enumerate(parts))) | work
        except Exception as error:
            raise (values.error() or error) from error
        return iter(values)

    def keep(self, values: Iterable[Any]) -> Sequence[Any]:
        """See `Workers`."""
        number = next(self._numbers)
        count = 0
        for count, value in enumerate(values, 1):
            PartFiles(self._folder / str(number), count).write(count - 1, value)
        return PartFiles(self._folder / str(number), count)

    def records(
        self, records: PartedRecords, check: RecordCheck
    ) -> tuple["beam.PTransform", PartFiles]:
        """Returns the usable records, in the form TFDS expects, and the accounts of all records.

        Args:
          records: records of a split.
          check: check for every record.

        Returns:
          A transform that yields keys with examples; and, after it has run, the list of `Entry` of
          every part.
        """
        import apache_beam as beam

        entries = self._files(records.count)
        work = functools.partial(_checked_records, records.read, check, entries)
        return beam.Create(range(records.count)) | beam.FlatMap(work), entries

    def close(self) -> None:
        """Removes the intermediate files."""
        if self._folder.exists():
            self._folder.rmtree()

    def _files(self, count: int) -> PartFiles:
        return PartFiles(self._folder / str(next(self._numbers)), count)


@contextlib.contextmanager
def stopped_by_dead_workers() -> Iterator[None]:
    """Stops a pipeline if a local worker dies; Beam's own runner would wait for it forever.

    Cluster runners start another worker.

    Raises:
      ChildProcessError: a worker died.
    """
    before, died = threading.excepthook, list[object]()
    if threading.current_thread() is not threading.main_thread():
        yield  # which nothing can interrupt
        return
    main = threading.get_ident()

    def stop(failure: threading.ExceptHookArgs) -> None:
        # The thread in which Beam's `SubprocessSdkWorkerHandler` waits for its worker.
        if failure.thread is None or failure.thread.name != "run_worker":
            before(failure)
        elif not died:
            died.append(failure.exc_value)
            signal.pthread_kill(main, signal.SIGINT)

    threading.excepthook = stop
    try:
        yield
    except KeyboardInterrupt as error:
        if not died:
            raise
        raise ChildProcessError(f"a Beam worker died ({died[0]}); build again") from error
    finally:
        threading.excepthook = before


def _write_value(
    function: Callable[[Part], Any], values: PartFiles, numbered: tuple[int, Part]
) -> None:
    number, part = numbered
    try:
        values.write(number, function(part))
    except (UnexpectedFilesError, OSError) as error:
        values.write_error(error)
        raise


def _checked_records(
    read: Callable[[int], Iterator[Any]], check: RecordCheck, entries: PartFiles, number: int
) -> Iterator[Record]:
    """Yields the usable records of a part, then writes the accounts of all records."""
    found = []
    try:
        for record in read(number):
            usable, entry = check(record)
            found.append(entry)
            if usable is not None:
                yield usable
        entries.write(number, found)
    except (UnexpectedFilesError, OSError) as error:
        entries.write_error(error)
        raise


def _write(path: epath.Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
    unfinished.write_bytes(pickle.dumps(value))
    unfinished.replace(path)
