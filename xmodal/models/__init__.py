"""Encoders, heads, dual encoders and cross-encoders: flax.linen modules as plain functions."""

from xmodal.models.basics import Devices, Mode
from xmodal.models.cross_encoders import CROSS_ENCODERS, CrossEncoder
from xmodal.models.dual_encoder import DualEncoder, make_dual_encoder
from xmodal.models.encoders import ENCODERS
from xmodal.models.features import Features
from xmodal.models.heads import HEADS
from xmodal.models.task_modules import TASK_MODULES, TaskModule, make_task_module
from xmodal.models.tower import Tower, make_tower
from xmodal.similarity.embedding import Embedding

__all__ = [
    "CROSS_ENCODERS",
    "ENCODERS",
    "HEADS",
    "TASK_MODULES",
    "CrossEncoder",
    "Devices",
    "DualEncoder",
    "Embedding",
    "Features",
    "Mode",
    "TaskModule",
    "Tower",
    "make_dual_encoder",
    "make_task_module",
    "make_tower",
]
