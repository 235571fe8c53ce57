"""The evaluators of a config, the splits that they use, and the loop over them."""

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from absl import logging
from etils import epath
from jax.sharding import Mesh

from xmodal import data
from xmodal.base.config import UserError
from xmodal.evals import Embeddings, Evaluation, evaluate_source, make_evaluator, read_options
from xmodal.evals.embed import Items
from xmodal.evals.evaluators import Evaluator
from xmodal.evals.reports.store import StoredResults, load_ranks
from xmodal.runs.evaluation.splits import SplitSource
from xmodal.runs.tensorboard.example_views import View


@dataclasses.dataclass(frozen=True)
class Request:
    """What to evaluate, and what to show and to save beside the numbers.

    Attributes:
      split: split of the run's dataset; None for the final split of every evaluator.
      compare: results of another model, see `EvalSuite.load_others`; None for no comparison.
      examples: queries of every rule on the pages of examples; 0 for no pages.
      save_embeddings: npz file for the embeddings, of which all evaluators must share one set; None
        for no file.
    """

    split: str | None = None
    compare: str | None = None
    examples: int = 0
    save_embeddings: str | None = None


FINAL_SPLITS = Request()


class EvalSuite:
    """Evaluators by name; each evaluator and split is opened once.

    Attributes:
      options: the options of every evaluator.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        sides: Collection[str],
        mesh: Mesh,
        names: Collection[str] | None = None,
    ) -> None:
        """Reads `data`, `evals` and `train_split`; no dataset is opened.

        Args:
          config: config of a run, with its sizes filled in.
          sides: the sides that have embeddings, of "image" and "text".
          mesh: devices of the evaluators.
          names: evaluators to use; None for all.

        Raises:
          UserError: an unknown type, option or name.
        """
        options = read_options(config["evals"])
        if unknown := sorted(set(names or ()) - set(options)):
            raise UserError(f"Unknown evaluator(s) {unknown}; config.evals has {sorted(options)}.")
        self.options = {name: options[name] for name in options if not names or name in names}
        self._sources = {
            name: SplitSource.of(config, name, each) for name, each in self.options.items()
        }
        self._sides, self._mesh = sides, mesh
        self._evaluators: dict[tuple[str, str], Evaluator] = {}
        self._splits: dict[tuple[str, str], Items] = {}

    @property
    def datasets(self) -> list[data.DataConfig]:
        """The dataset of every evaluator."""
        return [source.own for source in self._sources.values()]

    def check(self, name: str, split: str) -> None:
        """Raises an error if a split is missing or lacks a column, see `SplitSource.check`."""
        self._sources[name].check(split)

    def split_of(self, name: str, split: str | None) -> str:
        """Returns the split to evaluate: an evaluator with its own dataset keeps its final one."""
        options = self.options[name]
        return options.final_split if split is None or options.data is not None else split

    def items(self, name: str, split: str) -> Items:
        """Returns the split that an evaluator uses."""
        key = (repr(self._sources[name]), split)
        if key not in self._splits:
            self._splits[key] = cast(Items, self._sources[name].open(split))
        return self._splits[key]

    def evaluator(self, name: str, split: str) -> Evaluator:
        """Returns the evaluator of a split; its labels are read at the first call."""
        if (name, split) not in self._evaluators:
            self.check(name, split)
            self._evaluators[name, split] = make_evaluator(
                name, self.options[name], self.items(name, split), self._sides, self._mesh
            )
        return self._evaluators[name, split]

    def items_key(self, name: str, split: str) -> tuple[str, str]:
        """Returns a key shared by evaluators whose items have the same embeddings."""
        source = self._sources[name]
        # Labels do not affect embeddings.
        unlabeled = dataclasses.replace(source, own=dataclasses.replace(source.own, labels=()))
        return repr(unlabeled), split

    def load_others(self, request: Request) -> dict[str, StoredResults]:
        """Opens all splits and returns stored results of another model by evaluator.

        Logs the split of evaluators whose own dataset ignores that of the request.

        Call it before any work, to find mistakes in a split or a comparison early.

        Args:
          request: names the split, and the folder of results: with a folder per evaluator, or of
            one evaluation.

        Raises:
          UserError: there are no results, or they cannot be compared.
        """
        others = {}
        for name in self.options:
            split = self.split_of(name, request.split)
            if request.split not in (None, split):
                logging.warning(
                    "config.evals.%s has a dataset of its own: it evaluates its final_split %s, "
                    "not --split=%s.", name, split, request.split,
                )  # fmt: skip
            evaluator = self.evaluator(name, split)
            if request.compare is not None:
                own = epath.Path(request.compare) / name
                others[name] = load_ranks(own if own.is_dir() else request.compare)
                evaluator.check_comparable(others[name])
        return others


class Opened(NamedTuple):
    """An evaluator of a config, the items it evaluates, and their embeddings."""

    name: str
    evaluator: Evaluator
    items: Items
    embeddings: Embeddings


def evaluate_all(
    opened: Iterable[Opened],
    *,
    name: str,
    notes: Callable[[Items], Sequence[str]] = lambda items: (),
    trained_on: Mapping[str, str] | None = None,
    examples: int = 0,
    others: Mapping[str, StoredResults] | None = None,
    view: View | None = None,
) -> list[Evaluation]:
    """Returns one evaluation per evaluator.

    Args:
      opened: evaluators with their embeddings, which may be made one after the other.
      name: name of the model's row in tables.
      notes: items -> notes on the model, for the report.
      trained_on: hash of the records of the training data, by name.
      examples: queries of every rule on the pages of examples; 0 for no pages.
      others: evaluator -> another model to compare with, for these pages.
      view: called with every evaluation.

    Raises:
      UserError: see `evaluate_source`.
    """
    evaluations = []
    for each in opened:
        evaluation = evaluate_source(
            each.evaluator,
            each.embeddings,
            name=name,
            evaluator_name=each.name,
            notes=notes(each.items),
            trained_on=trained_on,
            split=each.items,
            examples=examples,
            other=(others or {}).get(each.name),
        )
        evaluations.append(evaluation)
        if view is not None:
            view(each.name, each.evaluator, each.embeddings, evaluation.results, each.items)
    return evaluations
