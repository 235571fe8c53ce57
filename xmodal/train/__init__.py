"""A run: its config, loop, step, folder, and the evaluation of its checkpoints.

The public function `xmodal.train` has the name of this package, so calling the package calls it.
"""

import sys
import types
from typing import Any


class _Package(types.ModuleType):
    def __call__(self, *args: Any, **kwargs: Any) -> bool:
        from xmodal.train.loop import train

        return train(*args, **kwargs)


sys.modules[__name__].__class__ = _Package
