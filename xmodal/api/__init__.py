"""Loaded models: one call loads, one call embeds. `xmodal` itself names what is public."""

from xmodal.api.judging import evaluate
from xmodal.api.loading import load
from xmodal.api.model import Model

__all__ = ["Model", "evaluate", "load"]
