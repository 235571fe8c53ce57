"""Towers and the dual encoder: flax.linen modules behind plain functions of nested dicts."""

from xmodal.models.dual_encoder import TOWERS, DualEncoder, make_dual_encoder
from xmodal.models.embedding import Embedding
from xmodal.models.tower import Devices, Tower

__all__ = ["TOWERS", "Devices", "DualEncoder", "Embedding", "Tower", "make_dual_encoder"]
