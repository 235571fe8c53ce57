"""Modules by name that hold the parameters of losses: embeddings of pairs -> outputs."""

from collections.abc import Mapping
from typing import Any

from xmodal.core.config import lookup, read
from xmodal.models.basics import Row
from xmodal.models.task_modules import caption_models, embeddings
from xmodal.models.task_modules.task_module import TaskModule

TASK_MODULES: Mapping[str, Row] = {
    "caption_decoder": Row(caption_models.CaptionDecoderConfig, caption_models.CaptionDecoder),
    "language_model": Row(caption_models.LanguageModelConfig, caption_models.LanguageModel),
    "momentum_queue": Row(embeddings.MomentumQueueConfig, embeddings.MomentumQueue),
    "relation_classifier": Row(embeddings.RelationClassifierConfig, embeddings.RelationClassifier),
}

__all__ = ["TASK_MODULES", "TaskModule", "make_task_module"]


def make_task_module(where: str, name: str, keywords: Mapping[str, Any]) -> TaskModule:
    """Returns the task module called `name`.

    Args:
      where: the section of the keywords as a user writes it: `config.tasks.NAME.loss.module`.
      name: key of `TASK_MODULES`.
      keywords: keywords of that module.
    """
    row = lookup(where, name, TASK_MODULES)
    config: Any = read(row.config, where, keywords)
    # Only a queue has a rate.
    return TaskModule(row.make(config), momentum=getattr(config, "rate", None))
