"""Values that a config leaves to its dataset.

They are sizes that depend on the number of examples, lengths in epochs, the size of the vocabulary,
and the metric that selects the best checkpoint.
"""

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any

from absl import logging
from ml_collections import ConfigDict

from xmodal import data
from xmodal.core.config import Bounds, check_value, find_section, lookup
from xmodal.core.errors import UserError
from xmodal.evals.evaluators import Options
from xmodal.evals.evaluators.boards import BoardsOptions
from xmodal.evals.evaluators.classification import ClassificationOptions
from xmodal.evals.reports.results import evaluator_tag
from xmodal.models import ENCODERS
from xmodal.train.optimization.run_lengths import choose_warmup, resolve_epochs
from xmodal.train.run_config import RunConfig
from xmodal.train.sizes import resolve_sizes

# Stand in for a dataset that is not known.
_MANY, _SOME_STEPS, _SOME_ROWS, _ANY_LENGTH = 2**31 - 1, 1000, 1000, 2**31 - 2
_ROWS = 512  # The rows of a word table are a multiple.


def fill(config: ConfigDict, examples: int | None = None, entries: int | None = None) -> ConfigDict:
    """Returns a config whose sizes and lengths are numbers.

    Args:
      config: the root, with everything that comes with weights.
      examples: training examples per epoch. If it is None, sizes that depend on it are arbitrary,
        but large enough for a check.
      entries: entries of the vocabulary; None if it is not known, or there are no texts.

    Raises:
      UserError: a size or length is not valid, or a model has fewer rows than the vocabulary has
        entries.
    """
    sized = resolve_sizes(config.to_dict(), _MANY if examples is None else examples)
    steps = _SOME_STEPS
    if examples is not None:
        batch_size = sized.get("batch_size", RunConfig.batch_size)
        check_value("config.batch_size", Annotated[int, Bounds(at_least=1)], batch_size)
        steps = max(1, examples // int(batch_size))
    filled = resolve_epochs(sized, steps)
    keys = ("total_steps", "optimizer")
    if examples is None and any("epoch" in repr(sized.get(key)) for key in keys):
        filled["total_steps"] = _ANY_LENGTH  # Groups that start late are valid in a long run.
    schedule = find_section(filled, "optimizer.schedule") or {}
    if warmup := schedule.get("warmup_steps"):
        # "up to 40", the default of a config, is shorter in a short run.
        steps = choose_warmup(warmup, filled.get("total_steps", RunConfig.total_steps))
        schedule["warmup_steps"] = steps
        if examples is not None and str(warmup) not in (str(steps), f"up to {steps}"):
            logging.warning(
                "config.optimizer.schedule.warmup_steps=%r is %d, since config.total_steps=%d.",
                *(warmup, steps, filled["total_steps"]),
            )
    _fill_vocabulary(filled, entries)
    return ConfigDict(filled, type_safe=False)


def _fill_vocabulary(config: dict[str, Any], entries: int | None) -> None:
    """Sets the rows of tables of words, and task modules' outputs over words, if they are 0.

    A table for a learned vocabulary has a few rows more, which no id reads: vocabularies of similar
    size share compiled programs. Outputs over words have none, since a softmax would count them.
    """
    encoder = find_section(config, "model.text.encoder") or {}
    row = ENCODERS.get(encoder.get("name", ""))
    if row is None or not any(f.name == "vocab_size" for f in dataclasses.fields(row.config)):
        return
    rows = encoder.get("vocab_size", 0)
    entries = entries or rows or _SOME_ROWS
    if 0 < rows < entries:
        raise UserError(
            f"config.model.text.encoder.vocab_size={rows} is smaller than the vocabulary of "
            f"config.data.text ({entries} entries); set it to {entries}, or to 0 to use that size."
        )
    names = find_section(config, "tasks") or {}
    losses = [find_section(config, f"tasks.{name}.loss") or {} for name in names]
    # A file's vocabulary is the same in every run. Losses that share the table, and a sum of
    # squares over parameters, would depend on rows that are not in use.
    is_exact = (find_section(config, "data.text") or {}).get("vocabulary") or config.get("l2")
    if not is_exact and not any(loss.get("reads") for loss in losses):
        rows = rows or -(-entries // _ROWS) * _ROWS
    encoder["vocab_size"] = rows or entries
    sizes = [(find_section(config, "model.text.head"), rows or entries)]
    sizes += [(loss.get("module"), entries) for loss in losses]
    for section, size in sizes:
        if section and section.get("vocab_size") == 0:
            section["vocab_size"] = size


def fill_metrics(config: ConfigDict, evals: Mapping[str, Options]) -> None:
    """Sets the metrics of `config.best_checkpoint` and of the plateau if they are "".

    Retrieval and rating boards come before other evaluators, accuracies last.

    Args:
      config: the root, which is changed.
      evals: options of the evaluators, by name.

    Raises:
      UserError: no evaluator has a metric to select by, one cannot use its dataset, or a plateau
        would never see an evaluation.
    """
    found = []
    for name, options in sorted(evals.items(), key=lambda item: _preference(item[1])):
        own = config.data.to_dict() | dict(options.data or {})
        dataset = data.parse(own, f"config.evals.{name}.data").dataset
        options.check_dataset(f"config.evals.{name}", dataset)
        if tag := options.default_metric(dataset):
            found.append(evaluator_tag(name, tag))
    best_checkpoint, plateau = config.get("best_checkpoint") or {}, config.optimizer.get("plateau")
    metric = best_checkpoint.get("metric") or next(iter(found), "")
    if not metric:
        raise UserError(
            "config.best_checkpoint.metric is empty, and no evaluator of config.evals has a "
            "default metric; name the one that selects the best checkpoint."
        )
    lookup(f"config.best_checkpoint.metric={metric!r}", metric.partition("/")[0], evals)
    config.best_checkpoint = {**best_checkpoint, "metric": metric}
    if plateau is not None:
        plateau.metric = plateau.get("metric") or metric
        name = plateau.metric.partition("/")[0]
        if not lookup("config.optimizer.plateau.metric", name, evals).every:
            raise UserError(
                f"config.optimizer.plateau waits for {plateau.metric!r}, but config.evals.{name}."
                "every is 0: set it to the steps between two evaluations, or remove the plateau."
            )


def _preference(options: Options) -> int:
    if isinstance(options, BoardsOptions):
        return 0
    return 2 if isinstance(options, ClassificationOptions) else 1
