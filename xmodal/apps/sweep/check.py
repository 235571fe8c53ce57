"""Checks a sweep before its first trial for invalid values and unknown metrics."""

from collections.abc import Mapping
from typing import Any

from absl import logging
from ml_collections import ConfigDict

from xmodal.apps.sweep.distributions import Distribution
from xmodal.apps.sweep.plan import with_values
from xmodal.base.config import UserError, lookup
from xmodal.data import DatasetMissingError
from xmodal.runs.evaluation.run_evaluation import RunEvaluation
from xmodal.runs.parts import Parts
from xmodal.runs.run import resolve


def check_values(config: ConfigDict, parameters: Mapping[str, Distribution]) -> Parts:
    """Builds the parts of the config, also with the end points of every distribution.

    This prepares the datasets of the config.

    Args:
      config: config that all trials share.
      parameters: path -> distribution of its values.

    Returns:
      The parts of the config itself.

    Raises:
      UserError: the config is wrong, or rejects a path or one of its values; names them.
      data.DatasetMissingError: a dataset is missing; says how to get it.
    """
    parts = resolve(config)
    for path, distribution in parameters.items():
        for value in distribution.ends():
            _check_value(config, path, value)
    return parts


def _check_value(config: ConfigDict, path: str, value: Any) -> None:
    try:
        resolve(with_values(config, {path: value}))
    except DatasetMissingError:
        raise
    except UserError as error:
        raise UserError(f"The search space has {path}={value!r}. {error}") from error


def resolve_metric(parts: Parts, given: str | None) -> str:
    """Returns the tag of the metric that trials are compared by.

    Args:
      parts: parts of the config.
      given: value of --select: a tag, or its beginning, which selects the first of its metrics:
        `sts/avg2016` for `sts/avg2016/pearson`. None for the metric of `config.select`.

    Raises:
      UserError: there is no such metric; lists the known ones, closest first.
    """
    if given is None:
        return parts.settings.select.metric
    where = f"--select={given}"
    evaluation = RunEvaluation(parts, trains=False)
    tags = lookup(where, given.partition("/")[0], evaluation.tags())
    shortened = [tag for tag in tags if tag.rpartition("/")[0] == given]
    if given not in tags and shortened:
        logging.info("%s stands for %s.", where, shortened[0])
        return shortened[0]
    lookup(where, given, tags)
    return given
