"""A plot of the score over each parameter of a sweep."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from xmodal.apps.analysis.canvas import GRAY, color, label, new_figure, strip, to_png
from xmodal.apps.sweep.distributions import Choice, Distribution, Uniform
from xmodal.apps.sweep.plan import Plan
from xmodal.apps.sweep.record import Outcome
from xmodal.apps.sweep.sweep_report import best_first, best_trials, format_value

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLUMNS = 3
_INCHES = (3.4, 2.6)
# Spread of trials with the same choice, as a share of the distance between two choices.
_SPREAD = 0.5
_LONGEST = 18


def draw_scores(plan: Plan, outcomes: Sequence[Outcome]) -> bytes:
    """Draws a panel per parameter, with a point per complete trial and a ring around the best.

    Colors show the values of the studied parameter.

    Args:
      plan: plan of the sweep.
      outcomes: outcomes of its trials, at least one of which is complete.

    Returns:
      The bytes of a PNG.
    """
    ordered = best_first(plan, outcomes)
    groups = list(best_trials(plan, outcomes))
    columns = min(_COLUMNS, len(plan.parameters))
    rows = math.ceil(len(plan.parameters) / columns)
    figure = new_figure(_INCHES[0] * columns, _INCHES[1] * rows)
    panels = figure.subplots(rows, columns, squeeze=False, sharey=True).flatten()
    for axes in panels[len(plan.parameters) :]:
        axes.set_visible(False)
    for place, (axes, (path, distribution)) in enumerate(
        zip(panels, plan.parameters.items(), strict=False)
    ):
        places = _places(ordered, path, distribution)
        for number, key in enumerate(groups):
            own = [each for each in ordered if _group(plan, each) == key]
            axes.scatter(
                [places[each.trial.number] for each in own],
                [each.score for each in own],
                s=14,
                color=color(number),
                alpha=0.7,
                linewidths=0,
                label=key,
            )
        best = ordered[0]
        axes.scatter(
            [places[best.trial.number]],
            [best.score],
            s=70,
            facecolors="none",
            edgecolors=GRAY,
        )
        _scale(axes, distribution)
        strip(axes, keep=("bottom", "left"))
        label(axes, x=path, y=plan.select if place % columns == 0 else "")
    if plan.studied is not None:
        handles, names = panels[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside upper right", ncols=len(names), fontsize=8)
    return to_png(figure)


def _group(plan: Plan, outcome: Outcome) -> str:
    return "" if plan.studied is None else format_value(outcome.trial.values[plan.studied[0]])


def _places(
    outcomes: Sequence[Outcome], path: str, distribution: Distribution
) -> Mapping[int, float]:
    """Returns number of a trial -> its position on the horizontal axis."""
    values = {each.trial.number: each.trial.values[path] for each in outcomes}
    if not isinstance(distribution, Choice):
        return values
    keys = [format_value(value) for value in distribution.values]
    most = max(values, default=0) + 1
    return {
        number: keys.index(format_value(value)) + _SPREAD * (number / most - 0.5)
        for number, value in values.items()
    }


def _scale(axes: "Axes", distribution: Distribution) -> None:
    if isinstance(distribution, Choice):
        names = [format_value(value) for value in distribution.values]
        short = [n if len(n) <= _LONGEST else f"{n[: _LONGEST - 1]}…" for n in names]
        axes.set_xticks(range(len(names)), short)
        axes.set_xlim(-0.5, len(names) - 0.5)
    elif isinstance(distribution, Uniform) and distribution.is_log:
        axes.set_xscale("log")
        low, high = distribution.low, distribution.high
        tens = range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)
        ticks = [10.0**power for power in tens] if len(tens) > 1 else [low, high]
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.minorticks_off()
