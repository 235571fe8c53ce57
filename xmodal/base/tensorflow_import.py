"""Imports TensorFlow without Keras."""

import contextlib
import sys
import types
from collections.abc import Iterator
from typing import Any

# TensorFlow imports Keras at the end of its own import, for users of saved Keras models.
_OPTIMIZERS = "keras.src.optimizers"
# Writers of TensorBoard files import a callback of Keras that they do not use.
_HPARAMS = "tensorboard.plugins.hparams"
_CALLBACK = f"{_HPARAMS}._keras"


@contextlib.contextmanager
def without_keras() -> Iterator[None]:
    """Leaves Keras out of the import of TensorFlow, which takes a third less time, and of clu.

    Keras would import scikit-learn, pandas, matplotlib and IPython if installed. `tf.keras`,
    `import keras` and TensorBoard's `KerasCallback` still work afterwards and import Keras on first
    use.
    """
    callback: Any = types.ModuleType(_CALLBACK)
    callback.Callback = None
    stand_ins = {_OPTIMIZERS: None, _CALLBACK: callback}
    missing: dict[str, Any] = {k: each for k, each in stand_ins.items() if k not in sys.modules}
    sys.modules.update(missing)
    try:
        yield
    finally:
        for name in missing:
            del sys.modules[name]
        # This module kept the stand-in; clu goes on with it, and others import it again.
        if _CALLBACK in missing and f"{_HPARAMS}.api" in sys.modules:
            del sys.modules[f"{_HPARAMS}.api"]
            del sys.modules[_HPARAMS].api
