"""Text encoders that were published as SavedModels, such as TF-Hub's, called as they are.

Unlike converted weights, a SavedModel is a program of its publisher: it may read and write files.
"""

from collections.abc import Callable, Collection
from typing import Any

import numpy as np
from etils import epath

from xmodal.core.errors import UserError

_KIND = "savedmodel:"
# The signature of a module or of a SavedModel, and the vectors among several outputs.
_USUAL = ("default", "serving_default", "outputs")


def open_text_encoder(source: str) -> Callable[[list[str]], np.ndarray]:
    """Returns the function of a SavedModel that embeds texts.

    A TensorFlow 2 model is called itself; otherwise, as in modules of TF-Hub's first format, the
    signature `default` or `serving_default` is. The operations of TensorFlow Text are available.

    Args:
      source: `savedmodel:FOLDER`, local or gs://.

    Returns:
      N texts of any length -> float32 [N, D], as the model returns them.
    """
    folder = source.removeprefix(_KIND)
    if folder == source or not (epath.Path(folder) / "saved_model.pb").exists():
        raise UserError(
            f"There is no SavedModel at {source!r}: write savedmodel:FOLDER, with the folder of "
            "saved_model.pb."
        )
    import tensorflow as tf
    import tensorflow_text  # noqa: F401, registers its operations.

    # A module also has a graph for training, with the tag `train`.
    is_module = (epath.Path(folder) / "tfhub_module.pb").exists()
    try:
        loaded: Any = tf.saved_model.load(folder, tags=[] if is_module else None)
    except Exception as error:  # TensorFlow raises errors of many types.
        reason = str(error).split("\n")[0]
        raise UserError(f"{folder} cannot be loaded: {reason}") from error
    # By its name: the variables live no longer than the model, which a signature does not hold.
    name = "" if callable(loaded) else _choose(loaded.signatures, folder)

    def embed(texts: list[str]) -> np.ndarray:
        found = (loaded.signatures[name] if name else loaded)(tf.constant(texts))
        return np.asarray(found[_choose(found, folder)] if isinstance(found, dict) else found)

    return embed


def _choose(names: Collection[str], folder: str) -> str:
    """Returns the first usual name that there is, or the only name."""
    usual = [name for name in _USUAL if name in names]
    if not usual and len(names) != 1:
        raise UserError(f"{folder} has none of {_USUAL}, but {sorted(names)}.")
    return (usual or [*names])[0]
