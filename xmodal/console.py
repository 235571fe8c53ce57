"""A console without the lines that libraries print at their import."""

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Keeps off the console what TensorFlow and CUDA print at their import, unless it fails.

    TF_CPP_MIN_LOG_LEVEL does not reach all of these lines.
    """
    sys.stderr.flush()
    console = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield
        except BaseException:
            os.dup2(console, 2)
            file.seek(0)
            os.write(2, file.read())
            raise
        finally:
            os.dup2(console, 2)
            os.close(console)
