"""Turns numbered records into decoded, augmented and tokenized batches with ids."""

import lazy_loader

# Imported on first use, as __init__.pyi names them.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
