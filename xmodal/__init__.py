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
    from xmodal.api.evaluating import evaluate
    from xmodal.api.item_embeddings import ItemEmbeddings
    from xmodal.api.loading import load
    from xmodal.api.model import Model
    from xmodal.api.search.index import Index
    from xmodal.apps.explore.compare import Comparison, compare
    from xmodal.apps.explore.inspection import Inspection, inspect
    from xmodal.base.config import UserError
    from xmodal.base.page import Page
    from xmodal.runs.loop import train

__version__ = "0.1.0"
__all__ = [
    "Comparison",
    "Index",
    "Inspection",
    "ItemEmbeddings",
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
        "api.item_embeddings": ["ItemEmbeddings"],
        "api.evaluating": ["evaluate"],
        "api.loading": ["load"],
        "api.model": ["Model"],
        "apps.explore.compare": ["Comparison", "compare"],
        "base.config": ["UserError"],
        "apps.explore.inspection": ["Inspection", "inspect"],
        "base.page": ["Page"],
        "api.search.index": ["Index"],
        "runs.loop": ["train"],
    },
)
