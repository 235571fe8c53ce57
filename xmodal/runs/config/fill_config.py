"""Values that a config leaves open and that follow from its dataset.

They are sizes that depend on the number of examples, lengths in epochs, the size of the vocabulary,
and the metric that selects the best checkpoint.
"""

import dataclasses
from typing import Annotated, Any

import ml_collections
from absl import logging

from xmodal.base.config import Bounds, UserError, check_value
from xmodal.evals.evaluators.boards import BoardsOptions
from xmodal.evals.evaluators.classification import ClassificationOptions
from xmodal.evals.evaluators.evaluator import Options
from xmodal.evals.results import evaluator_tag
from xmodal.models import ENCODERS
from xmodal.runs.config.awaited_metrics import dataset_of
from xmodal.runs.config.dataset_facts import DatasetFacts
from xmodal.runs.config.run_config import RunConfig
from xmodal.runs.config.sizes import resolve_sizes
from xmodal.runs.config.spec import Spec, read_spec
from xmodal.training.optimization.run_lengths import resolve_epochs

# Stand in for a dataset that is not known.
_MANY, _SOME_STEPS, _SOME_ROWS = 2**31 - 1, 1000, 1000
_ROWS = 512  # The rows of a word table are a multiple.


def fill(config: ml_collections.ConfigDict, facts: DatasetFacts) -> Spec:
    """Returns a config that leaves nothing open.

    Args:
      config: the root, with all that it inherits.
      facts: what its dataset says; sizes that depend on facts that are not known are arbitrary, but
        large enough for a check.

    Raises:
      UserError: an unknown key or name, a value out of range, or a model with fewer rows than the
        vocabulary has entries.
    """
    examples = _MANY if facts.examples is None else facts.examples
    sized = resolve_sizes(config.to_dict(), examples)
    steps = _SOME_STEPS
    if facts.examples is not None:
        batch_size = sized.get("batch_size", RunConfig.batch_size)
        check_value("config.batch_size", Annotated[int, Bounds(at_least=1)], batch_size)
        steps = max(1, examples // int(batch_size))
    filled = ml_collections.ConfigDict(resolve_epochs(sized, steps))
    _fill_vocabulary(filled, facts.entries)
    spec = read_spec(filled)
    if not facts.missing:
        _report_warmup(filled, spec.settings)
    spec = dataclasses.replace(spec, records=facts.records, missing=facts.missing)
    return _fill_metrics(spec)


def _report_warmup(given: ml_collections.ConfigDict, settings: RunConfig) -> None:
    """Warns if the run is too short for the default warm-up of its config."""
    default = given.get("optimizer", {}).get("schedule", {}).get("warmup_steps")
    steps = settings.optimizer.schedule.get("warmup_steps")
    if default not in (steps, f"up to {steps}"):
        logging.warning(
            "config.optimizer.schedule.warmup_steps=%r is %d, since config.total_steps=%d; set a "
            "number to choose another.",
            *(default, steps, settings.total_steps),
        )


def _fill_vocabulary(config: ml_collections.ConfigDict, entries: int | None) -> None:
    """Sets the rows of tables of words, and task modules' outputs over words, if they are 0.

    A table for a learned vocabulary has a few rows more, which no id reads: vocabularies of similar
    size share compiled programs. Outputs over words have none, since a softmax would count them.

    Raises:
      UserError: the model has fewer rows than the vocabulary has entries.
    """
    text = config.model.get("text")
    if text is None or not _has_rows(text.encoder):
        return
    rows = text.encoder.get("vocab_size", 0)
    if entries is None:
        entries = rows or _SOME_ROWS
    if 0 < rows < entries:
        raise UserError(
            f"config.model.text.encoder.vocab_size={rows} is smaller than the vocabulary of "
            f"config.data.text ({entries} entries); set it to {entries}, or to 0 to use that size."
        )
    with config.unlocked():
        text.encoder.vocab_size = rows or _count_rows(config, entries)
        if text.head and text.head.get("vocab_size") == 0:
            text.head.vocab_size = text.encoder.vocab_size
        for task in config.get("tasks", {}).values():
            module = task.loss.get("module", {})
            if module.get("vocab_size") == 0:
                module.vocab_size = entries


def _count_rows(config: ml_collections.ConfigDict, entries: int) -> int:
    """Rows of the word table for a vocabulary with this many entries.

    A file's vocabulary is the same in every run. Losses that share the table, and a sum of squares
    over parameters, would depend on rows that are not in use.
    """
    text = config.data.get("text") or {}
    tasks = config.get("tasks", {}).values()
    if text.get("vocabulary") or config.get("l2") or any(task.loss.get("reads") for task in tasks):
        return entries
    return -(-entries // _ROWS) * _ROWS


def _has_rows(encoder: ml_collections.ConfigDict) -> bool:
    """Whether an encoder reads the size of the vocabulary; an unknown one is an error later."""
    row: Any = ENCODERS.get(encoder.get("name"))
    keys = () if row is None else dataclasses.fields(row.config)
    return any(key.name == "vocab_size" for key in keys)


def _preference(options: Options) -> int:
    """Order in which evaluators give the metric to select by: boards first, accuracies last."""
    if isinstance(options, BoardsOptions):
        return 0
    return 2 if isinstance(options, ClassificationOptions) else 1


def _fill_metrics(spec: Spec) -> Spec:
    """Sets the metrics of `select` and of the plateau if they are "", see `_preference`.

    Raises:
      UserError: no evaluator has a metric to select by, or one cannot use its dataset.
    """
    config, settings, found = spec.config, spec.settings, []
    for name, options in sorted(spec.evals.items(), key=lambda item: _preference(item[1])):
        dataset = dataset_of(config.to_dict(), name, options)
        options.check_dataset(f"config.evals.{name}", dataset)
        if tag := options.default_metric(dataset):
            found.append(evaluator_tag(name, tag))
    select, plateau = settings.select, settings.optimizer.plateau
    if not (select.metric or found):
        raise UserError(
            "config.select.metric is empty, and no evaluator of config.evals has a default metric; "
            "name the one that selects the best checkpoint."
        )
    select = dataclasses.replace(select, metric=select.metric or found[0])
    optimizer = settings.optimizer
    with config.unlocked():
        config.select = dataclasses.asdict(select)
        if plateau is not None:
            plateau = dataclasses.replace(plateau, metric=plateau.metric or select.metric)
            optimizer = dataclasses.replace(optimizer, plateau=plateau)
            config.optimizer.plateau = dataclasses.asdict(plateau)
    settings = dataclasses.replace(settings, select=select, optimizer=optimizer)
    return dataclasses.replace(spec, settings=settings)
