"""Text encoders that were published as SavedModels, such as TF-Hub's, called as they are.

Unlike converted weights, a SavedModel is a program of its publisher: it may read and write files.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
from etils import epath

from xmodal.core.errors import UserError

_KIND = "savedmodel:"
# TF-Hub's names of the one signature of a module, or of a SavedModel, and of its one output.
_SIGNATURES = ("default", "serving_default")
_OUTPUTS = ("default", "outputs")


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
        raise UserError(f"{folder} cannot be loaded: {str(error).splitlines()[0]}") from error
    # By its name: the variables live no longer than the model, which a signature does not hold.
    name = "" if callable(loaded) else _choose(loaded.signatures, _SIGNATURES, folder)

    def embed(texts: list[str]) -> np.ndarray:
        found = (loaded.signatures[name] if name else loaded)(tf.constant(texts))
        return np.asarray(
            found[_choose(found, _OUTPUTS, folder)] if isinstance(found, dict) else found
        )

    return embed


def _choose(named: Collection[str], usual: Sequence[str], folder: str) -> str:
    """Returns the first usual name that there is, or the only name."""
    found = [name for name in usual if name in named] or list(named)
    if len(found) != 1 and found[0] not in usual:
        raise UserError(f"{folder} has none of {usual}, but {sorted(named)}.")
    return found[0]
