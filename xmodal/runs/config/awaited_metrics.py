"""Checks the tags of metrics that a run waits for, before any dataset is known."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from xmodal import data
from xmodal.base.config import UserError, lookup, suggest
from xmodal.evals.boards.definitions import RATING_SIDES, definitions_of
from xmodal.evals.evaluators import Options
from xmodal.evals.evaluators.boards import BoardsOptions
from xmodal.evals.metrics import lower_is_better
from xmodal.evals.reports.summary import list_tags
from xmodal.evals.results import evaluator_tag
from xmodal.runs.sections import SelectConfig
from xmodal.training.optimization.plateau import PlateauConfig


def check_awaited(
    awaited: Mapping[str, str],
    evals: Mapping[str, Options],
    config: Mapping[str, Any],
    sides: Collection[str],
) -> None:
    """Raises an error if a run waits for a metric that its evaluators cannot have.

    The labels of a dataset decide which of its boards are computed, and the tags of every other
    type of evaluator: `RunEvaluation` checks them again where the labels are known.

    Args:
      awaited: tags by their place in the config, see `RunConfig.awaited_metrics`.
      evals: evaluators of the run, by name.
      config: config of the run.
      sides: sides of the model, of "image" and "text".

    Raises:
      UserError: names the metric and the tags that exist.
    """
    for where, tag in awaited.items():
        known = {
            name: [evaluator_tag(name, each) for each in possible_tags(options, dataset, sides)]
            for name, options in evals.items()
            if isinstance(options, BoardsOptions)
            for dataset in (dataset_of(config, name, options),)
        }
        name = tag.partition("/")[0]
        every = [each for tags in known.values() for each in tags]
        if name not in evals and (found := _ending_in(f"/{tag}", every)):
            raise UserError(f"{where}={tag!r} names no evaluator; did you mean {found!r}?")
        lookup(f"{where}={tag!r}", name, evals)
        if name in known and tag not in known[name]:
            raise UserError(f"Unknown name {tag!r} in {where}; {_suggest(tag, known[name])}")


def _suggest(tag: str, known: Sequence[str]) -> str:
    """A sentence like `suggest`, with the same metric of another board before similar names.

    A config names a board of its own dataset, and the run may have another.
    """
    _, *parts = tag.split("/")
    ends = ["/" + "/".join(parts[start:]) for start in range(len(parts))]
    if found := next(filter(None, (_ending_in(end, known) for end in ends)), None):
        return f"did you mean {found!r}, or '', the default? Known: {sorted(known)}."
    return suggest([tag], known)


def _ending_in(end: str, known: Sequence[str]) -> str | None:
    return next((tag for tag in known if tag.endswith(end)), None)


def dataset_of(config: Mapping[str, Any], name: str, options: Options) -> str:
    """Returns the dataset of an evaluator, which may have its own.

    Raises:
      UserError: an unknown key or a value out of range in its section `data`.
    """
    own = dict(config["data"]) | dict(options.data or {})
    return data.parse(own, f"config.evals.{name}.data").dataset


def check_mode(select: SelectConfig) -> None:
    """Raises an error if the mode selects the worst checkpoint.

    Args:
      select: settings whose metric is filled in.

    Raises:
      UserError: names the metric and its mode.
    """
    best, worst = ("min", "max") if lower_is_better(select.metric) else ("max", "min")
    if select.mode == worst:
        lower = ", or add the metric to LOWER_IS_BETTER in xmodal/evals/metrics.py"
        raise UserError(
            f"config.select.mode={worst!r} selects the worst checkpoint by config.select.metric="
            f"{select.metric!r}; set it to {best!r}{lower if worst == 'min' else ''}."
        )


def check_plateau(plateau: PlateauConfig | None, evals: Mapping[str, Options]) -> None:
    """Raises an error if a plateau would never see an evaluation before the last step.

    Args:
      plateau: settings whose metric is filled in and exists; None for no plateau.
      evals: evaluators of the run, by name.

    Raises:
      UserError: names the evaluator.
    """
    name = "" if plateau is None else plateau.metric.partition("/")[0]
    if plateau is not None and not evals[name].every:
        raise UserError(
            f"config.optimizer.plateau waits for {plateau.metric!r}, but config.evals.{name}.every "
            "is 0, so that only the last step is evaluated: set it to the steps between two "
            "evaluations, or remove the plateau."
        )


def possible_tags(options: BoardsOptions, dataset: str, sides: Collection[str]) -> list[str]:
    """Returns the tags of boards on a dataset that has all their labels."""
    known = definitions_of("coco_captions" if options.annotations else dataset)
    return [
        tag
        for name, each in known.items()
        if (not each.variant if options.boards is None else name in options.boards)
        for tag in list_tags(
            name,
            dict.fromkeys(each.directions, each.metrics),
            {rating: RATING_SIDES[rating][:2] for rating in each.correlations},
            sides,
        )
    ]
