"""Image-text dual encoders: trained with a loss over the whole global batch, judged exactly.

    model = xmodal.load("runs/quickstart")
    texts = model.embed_texts(["a dog on a beach"])
    images = model.embed_images(["beach.jpg", "street.jpg"])
    model.similarity(texts, images)

Public are the names below; all else may change.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xmodal.api.judging import evaluate
    from xmodal.api.loading import load
    from xmodal.api.model import Model
    from xmodal.config import UserError
    from xmodal.search.index import Index

__version__ = "0.1.0"
__all__ = ["Index", "Model", "UserError", "__version__", "evaluate", "load"]

# Imported when they are used: `import xmodal` is quick, and starts no JAX.
_HOMES = {
    "Index": "xmodal.search.index",
    "Model": "xmodal.api.model",
    "UserError": "xmodal.config",
    "evaluate": "xmodal.api.judging",
    "load": "xmodal.api.loading",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'xmodal' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
