"""Exact evaluation of models: retrieval and rating benchmarks, sentence pairs, pools, relations."""

import lazy_loader

# Imported on first use, as __init__.pyi names them.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
