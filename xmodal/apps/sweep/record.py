"""The record of a sweep: an Optuna study in `STUDY/optuna.db`, an SQLite file.

`optuna.load_study(study_name="sweep", storage="sqlite:///STUDY/optuna.db")` opens it, as does
Optuna's dashboard.
"""

import dataclasses
import json
import pathlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from xmodal.apps.sweep.distributions import Choice, Distribution, Integers
from xmodal.apps.sweep.plan import Plan, Trial
from xmodal.base.config import UserError

if TYPE_CHECKING:
    import optuna

FILE = "optuna.db"
_STUDY = "sweep"
_NUMBER, _DRAW, _METRICS, _SECONDS, _ERROR = "trial", "draw", "metrics", "seconds", "error"
# Seconds that a process waits while another process writes.
_PATIENCE = 60


def check_installed() -> None:
    """Raises an error if Optuna is not installed.

    Raises:
      UserError: says how to install it.
    """
    try:
        import optuna  # noqa: F401
    except ImportError as error:
        raise UserError(
            "xmodal.apps.sweep keeps its record with Optuna, which is not installed: "
            'pip install "xmodal[sweep]", or pip install optuna.'
        ) from error


@dataclasses.dataclass(frozen=True)
class Outcome:
    """A trial in the record.

    Attributes:
      trial: the trial.
      state: "waiting", "running", "complete" or "failed".
      score: value of the selection metric, for a complete trial.
      metrics: tag -> value of the final evaluation, for a complete trial.
      seconds: time taken by the process that finished it.
      error: why it failed.
    """

    trial: Trial
    state: str
    score: float | None
    metrics: Mapping[str, float]
    seconds: float
    error: str

    @property
    def is_finished(self) -> bool:
        """Whether there is nothing left to do."""
        return self.state in ("complete", "failed")


class Record:
    """The states and results of all trials; every change is on disk when its method returns.

    Several processes may have it open. This class does not decide which of them runs a trial.
    """

    def __init__(self, folder: pathlib.Path, plan: Plan) -> None:
        """Opens or creates the record.

        Args:
          folder: folder of the sweep, on a local disk.
          plan: plan of the sweep.
        """
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._plan = plan
        self._storage = optuna.storages.RDBStorage(
            f"sqlite:///{folder / FILE}",
            engine_kwargs={"connect_args": {"timeout": _PATIENCE}},
        )
        self._study = optuna.create_study(
            study_name=_STUDY,
            storage=self._storage,
            direction="minimize" if plan.sign < 0 else "maximize",
            load_if_exists=True,
        )
        self._distributions = {path: _to_optuna(each) for path, each in plan.parameters.items()}

    @property
    def draws(self) -> int:
        """Number of draws whose trials are recorded."""
        return 1 + max((each.user_attrs[_DRAW] for each in self._newest().values()), default=-1)

    def add(self, trials: Iterable[Trial]) -> None:
        """Adds the missing trials; only one process at a time may call it.

        Raises:
          UserError: a recorded trial has different values.
        """
        found = self._newest()
        for trial in trials:
            params = self._params(trial)
            if trial.number not in found:
                self._add(trial)
            elif (recorded := found[trial.number].params) != params:
                raise UserError(
                    f"Trial {trial.name} of the record has {recorded}, but is drawn as {params}: "
                    "it comes from another version of the code. Use another --workdir."
                )

    def add_again(self, trials: Iterable[Trial]) -> None:
        """Adds failed trials again; only one process at a time may call it."""
        for trial in trials:
            self._add(trial)

    def outcomes(self, trials: Iterable[Trial]) -> list[Outcome]:
        """Returns the current outcomes of some trials."""
        found = self._newest()
        return [_read(trial, found[trial.number]) for trial in trials if trial.number in found]

    def start(self, trial: Trial) -> None:
        """Marks a trial as running, unless it was already when its process died."""
        import optuna

        self._storage.set_trial_state_values(self._id(trial), optuna.trial.TrialState.RUNNING)

    def complete(
        self, trial: Trial, score: float, metrics: Mapping[str, float], seconds: float
    ) -> None:
        """Stores the result of a trial."""
        import optuna

        found = self._newest()[trial.number]
        self._storage.set_trial_user_attr(found._trial_id, _METRICS, dict(metrics))
        self._storage.set_trial_user_attr(found._trial_id, _SECONDS, seconds)
        self._study.tell(found.number, score, state=optuna.trial.TrialState.COMPLETE)

    def fail(self, trial: Trial, error: str) -> None:
        """Stores why a trial failed."""
        import optuna

        found = self._newest()[trial.number]
        self._storage.set_trial_user_attr(found._trial_id, _ERROR, error)
        self._study.tell(found.number, state=optuna.trial.TrialState.FAIL)

    def _add(self, trial: Trial) -> None:
        import optuna

        self._study.add_trial(
            optuna.trial.create_trial(
                state=optuna.trial.TrialState.WAITING,
                params=self._params(trial),
                distributions=self._distributions,
                user_attrs={_NUMBER: trial.number, _DRAW: trial.draw},
            )
        )

    def _newest(self) -> "dict[int, optuna.trial.FrozenTrial]":
        """Optuna's trials by our numbers; the last one if a trial was added again."""
        trials = self._study.get_trials(deepcopy=False)
        return {trial.user_attrs[_NUMBER]: trial for trial in trials}

    def _id(self, trial: Trial) -> int:
        return self._newest()[trial.number]._trial_id

    def _params(self, trial: Trial) -> dict[str, Any]:
        return {
            path: _as_category(trial.values[path])
            if isinstance(each, Choice)
            else trial.values[path]
            for path, each in self._plan.parameters.items()
        }


def _read(trial: Trial, found: "optuna.trial.FrozenTrial") -> Outcome:
    states = {"WAITING": "waiting", "RUNNING": "running", "COMPLETE": "complete", "FAIL": "failed"}
    attributes = found.user_attrs
    return Outcome(
        trial,
        states[found.state.name],
        found.value,
        attributes.get(_METRICS, {}),
        attributes.get(_SECONDS, 0.0),
        attributes.get(_ERROR, ""),
    )


def _to_optuna(distribution: Distribution) -> "optuna.distributions.BaseDistribution":
    from optuna.distributions import (
        CategoricalDistribution,
        FloatDistribution,
        IntDistribution,
    )

    if isinstance(distribution, Choice):
        return CategoricalDistribution([_as_category(value) for value in distribution.values])
    if isinstance(distribution, Integers):
        return IntDistribution(distribution.low, distribution.high)
    return FloatDistribution(distribution.low, distribution.high, log=distribution.is_log)


def _as_category(value: Any) -> Any:
    """Returns a value that Optuna can store: lists and sections become JSON."""
    is_plain = value is None or isinstance(value, bool | int | float | str)
    return value if is_plain else json.dumps(value)
