"""TensorFlow's import, without Keras."""

import contextlib
import sys
from collections.abc import Iterator

# TensorFlow imports it at the end of its own import, for users of saved Keras models.
_KERAS = "keras.src.optimizers"


@contextlib.contextmanager
def without_keras() -> Iterator[None]:
    """Leaves Keras out of `import tensorflow`, which takes a third less time then.

    Where they are there, Keras brings scikit-learn, pandas, matplotlib and IPython. `tf.keras` and
    `import keras` work afterwards: Keras is then imported by whoever uses it.
    """
    is_free = _KERAS not in sys.modules
    if is_free:
        sys.modules[_KERAS] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        if is_free:
            del sys.modules[_KERAS]
