"""TensorFlow's import: without its lines on the console, and without Keras."""

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator

# TensorFlow imports it at the end of its own import, for users of saved Keras models. That takes a
# third of the time, and brings scikit-learn, pandas, matplotlib and IPython where they are there.
_KERAS = "keras.src.optimizers"


@contextlib.contextmanager
def importing_tensorflow() -> Iterator[None]:
    """Makes imports of TensorFlow within it quiet, unless they fail, and quicker.

    `tf.keras` and `import keras` work afterwards: Keras is then imported by whoever uses it.
    """
    with _quietly(), _without_keras():
        yield


@contextlib.contextmanager
def _without_keras() -> Iterator[None]:
    is_blocked = sys.modules.setdefault(_KERAS, None) is None  # type: ignore[arg-type]
    try:
        yield
    finally:
        if is_blocked:
            sys.modules.pop(_KERAS, None)


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Keeps off the console what TensorFlow and CUDA print.

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
