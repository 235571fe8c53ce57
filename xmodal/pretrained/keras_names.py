"""Arrays of Keras files by layer and variable, in every spelling of their names."""

from collections.abc import Mapping

import numpy as np

from xmodal.pretrained.conversion_report import Taken
from xmodal.pretrained.renaming import TENSORFLOW

# Keras 3 numbers the variables of a layer in the order of their creation.
_ORDER = {"kernel": 0, "bias": 1, "norm_scale": 0, "norm_bias": 1, "norm_mean": 2, "norm_var": 3}


class KerasNames:
    """Finds `LAYER/kernel` (released files) and `LAYER/0` (Keras 3), see `array_files`."""

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        self._names: dict[str, dict[str, str]] = {}
        for name in arrays:
            layer, _, variable = name.rpartition("/")
            variable = variable.replace("depthwise_kernel", "kernel")
            self._names.setdefault(layer, {})[variable] = name

    def find(self, layer: str, role: str) -> Taken:
        """Returns the array of a layer with a role of `renaming.TENSORFLOW`."""
        variables = self._names.get(layer, {})
        by_name = TENSORFLOW[role]
        # A batch normalization without scale starts with its offset.
        number = _ORDER[role] - (role.startswith("norm_") and "3" not in variables)
        return Taken(variables.get(by_name) or variables.get(str(number)) or f"{layer}/{by_name}")
