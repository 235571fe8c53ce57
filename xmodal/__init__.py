"""Image-text dual encoders, trained with losses over the global batch and evaluated exactly.

    model = xmodal.load("runs/quickstart")
    texts = model.embed_texts(["a dog on a beach"])
    images = model.embed_images(["beach.jpg", "street.jpg"])
    model.similarity(texts, images)

Only the names below are public; everything else may change.
"""

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from xmodal.api.embedding import Embedding
    from xmodal.api.evaluating import evaluate
    from xmodal.api.loading import load
    from xmodal.api.model import Model
    from xmodal.comparison import Comparison, compare
    from xmodal.config import UserError
    from xmodal.inspection import Inspection, inspect
    from xmodal.page import Page
    from xmodal.search.index import Index
    from xmodal.training.loop import train

__version__ = "0.1.0"
__all__ = [
    "Comparison",
    "Embedding",
    "Index",
    "Inspection",
    "Model",
    "Page",
    "UserError",
    "__version__",
    "compare",
    "evaluate",
    "inspect",
    "load",
    "train",
]

# Imported on first use, so that `import xmodal` is fast and does not initialize JAX.
__getattr__, __dir__, _ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "api.embedding": ["Embedding"],
        "api.evaluating": ["evaluate"],
        "api.loading": ["load"],
        "api.model": ["Model"],
        "comparison": ["Comparison", "compare"],
        "config": ["UserError"],
        "inspection": ["Inspection", "inspect"],
        "page": ["Page"],
        "search.index": ["Index"],
        "training.loop": ["train"],
    },
)
