"""Modules by name that hold the parameters of losses: embeddings of pairs -> outputs."""

from collections.abc import Mapping
from typing import Any

from xmodal.base.config import lookup, read
from xmodal.models.entry_table import Row
from xmodal.models.task_modules import (
    caption_decoder,
    language_model,
    momentum_queue,
    relation_classifier,
)
from xmodal.models.task_modules.task_module import TaskModule

TASK_MODULES: Mapping[str, Row] = {
    "caption_decoder": Row(
        caption_decoder.CaptionDecoderConfig,
        lambda config: TaskModule(caption_decoder.CaptionDecoder(config)),
    ),
    "language_model": Row(
        language_model.LanguageModelConfig,
        lambda config: TaskModule(language_model.LanguageModel(config)),
    ),
    "momentum_queue": Row(
        momentum_queue.MomentumQueueConfig,
        lambda config: TaskModule(momentum_queue.MomentumQueue(config.size), momentum=config.rate),
    ),
    "relation_classifier": Row(
        relation_classifier.RelationClassifierConfig,
        lambda config: TaskModule(relation_classifier.RelationClassifier(config.relations)),
    ),
}

__all__ = ["TASK_MODULES", "TaskModule", "make_task_module"]


def make_task_module(where: str, name: str, keywords: Mapping[str, Any]) -> TaskModule:
    """Returns the task module called `name`.

    Args:
      where: the section of the keywords as a user writes it: `config.tasks.NAME.loss.module`.
      name: key of `TASK_MODULES`.
      keywords: keywords of that module.

    Raises:
      UserError: the name or a keyword is unknown, one is missing, or a value is out of range.
    """
    row = lookup(where, name, TASK_MODULES)
    return row.make(read(row.config, where, keywords))
