"""Imports TensorFlow without Keras."""

import contextlib
import sys
from collections.abc import Iterator

# TensorFlow imports Keras at the end of its own import, for users of saved Keras models.
_KERAS = "keras.src.optimizers"


@contextlib.contextmanager
def without_keras() -> Iterator[None]:
    """Leaves Keras out of `import tensorflow`, which then takes a third less time.

    Keras would import scikit-learn, pandas, matplotlib and IPython if installed. `tf.keras` and
    `import keras` still work afterwards and import Keras on first use.
    """
    is_free = _KERAS not in sys.modules
    if is_free:
        sys.modules[_KERAS] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        if is_free:
            del sys.modules[_KERAS]
