"""Values that a config leaves open and that follow from its dataset.

They are the metric that selects the best checkpoint, sizes that depend on the number of examples,
lengths in epochs, and the size of the vocabulary.
"""

import dataclasses

import ml_collections

from xmodal import data
from xmodal.base.config import UserError
from xmodal.evals import read_options
from xmodal.evals.results import evaluator_tag
from xmodal.runs.config.run_config import read_settings
from xmodal.runs.config.sizes import resolve_sizes
from xmodal.runs.evaluation.splits import SplitSource
from xmodal.training.optimization.schedules import resolve_epochs

# Placeholders until the dataset is known.
_SOME_STEPS, _SOME_ROWS = 1000, 1000
MANY = 2**31 - 1


def fill(config: ml_collections.ConfigDict, examples: int) -> ml_collections.ConfigDict:
    """Returns a config that leaves nothing open.

    Args:
      config: config whose vocabulary has been learned.
      examples: training examples per epoch.

    Raises:
      UserError: the model has fewer rows than the vocabulary has entries.
    """
    config = fill_metric(config)
    config = ml_collections.ConfigDict(resolve_sizes(config.to_dict(), examples))
    batch_size = read_settings(_in_steps(config, _SOME_STEPS)).batch_size
    return _fill_vocabulary(_in_steps(config, max(1, examples // batch_size)))


def fill_placeholders(config: ml_collections.ConfigDict) -> ml_collections.ConfigDict:
    """Returns a config with arbitrary sizes, large enough for a check, if it leaves any open."""
    config = _in_steps(config, _SOME_STEPS)
    if config.model.text is None:
        return config
    rows = _vocabulary_rows(config) or _SOME_ROWS
    return _with_rows(config, rows, rows)


def fill_metric(config: ml_collections.ConfigDict) -> ml_collections.ConfigDict:
    """Reads the evaluators; sets the metrics of `select` and the plateau if they are ""."""
    draft = read_settings(_in_steps(config, _SOME_STEPS))
    found = []
    for name, options in read_options(draft.evals).items():
        dataset = SplitSource.of(config.to_dict(), name, options).own.dataset
        options.check_dataset(f"config.evals.{name}", dataset)
        if tag := options.default_metric(dataset):
            found.append(evaluator_tag(name, tag))
    plateau = draft.optimizer.plateau
    if draft.select.metric and (plateau is None or plateau.metric):
        return config
    if not (draft.select.metric or found):
        raise UserError(
            "config.select.metric is empty, and no evaluator of config.evals has a default metric; "
            "name the one that selects the best checkpoint."
        )
    config = config.copy_and_resolve_references()
    with config.unlocked():
        metric = draft.select.metric or found[0]
        config.select = dataclasses.asdict(draft.select) | {"metric": metric}
        if plateau is not None:
            chosen = {"metric": plateau.metric or metric}
            config.optimizer.plateau = dataclasses.asdict(plateau) | chosen
    return config


def _in_steps(config: ml_collections.ConfigDict, steps_per_epoch: int) -> ml_collections.ConfigDict:
    """Fills in lengths in epochs, assuming many examples if their number is not known."""
    sized = resolve_sizes(config.to_dict(), MANY)
    return ml_collections.ConfigDict(resolve_epochs(sized, steps_per_epoch))


def _fill_vocabulary(config: ml_collections.ConfigDict) -> ml_collections.ConfigDict:
    """Sets `model.text.encoder.vocab_size` to the size of the vocabulary if it is 0.

    Raises:
      UserError: the model has fewer rows than the vocabulary has entries.
    """
    if config.model.text is None:
        return config
    entries = data.vocabulary_size(config.data, config.train_split)
    rows = _vocabulary_rows(config)
    if 0 < rows < entries:
        raise UserError(
            f"config.model.text.encoder.vocab_size={rows} is smaller than the vocabulary of "
            f"config.data.text ({entries} entries); set it to {entries}, or to 0 to use that size."
        )
    return _with_rows(config, rows or entries, entries)


def _vocabulary_rows(config: ml_collections.ConfigDict) -> int:
    return 0 if config.model.text is None else config.model.text.encoder.get("vocab_size", 0)


def _with_rows(
    config: ml_collections.ConfigDict, rows: int, entries: int
) -> ml_collections.ConfigDict:
    """Sets the rows of the word table, and task modules' outputs over words, if they are 0."""
    config = config.copy_and_resolve_references()
    with config.unlocked():
        config.model.text.encoder.vocab_size = rows
        for task in config.tasks.values():
            module = task.loss.get("module", {})
            if module.get("vocab_size") == 0:
                module.vocab_size = entries
    return config
