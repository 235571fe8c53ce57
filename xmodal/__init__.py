"""Image-text dual encoders, trained with losses over the global batch and evaluated exactly.

    model = xmodal.load("runs/quickstart")
    texts = model.embed_texts(["a dog on a beach"])
    images = model.embed_images(["beach.jpg", "street.jpg"])
    model.similarity(texts, images)

Only the names below are public; everything else may change.
"""

import lazy_loader

from xmodal.core.version import __version__ as __version__

# Imported on first use, as __init__.pyi names them.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
