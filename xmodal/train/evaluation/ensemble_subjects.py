"""Opens several models as one, whose scores are the means of theirs."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, cast

import numpy as np

from xmodal.core.config import lookup
from xmodal.core.errors import UserError
from xmodal.evals.evaluators import Split
from xmodal.evals.provider import Ensemble, ModelProvider
from xmodal.evals.scores.embed import Items
from xmodal.train.evaluation.model_identity import ModelIdentity
from xmodal.train.evaluation.run_evaluation import RunEvaluation
from xmodal.train.evaluation.subjects import Opened
from xmodal.train.evaluation.suite import EvalSuite, Subject
from xmodal.train.tree import Tree


class Member(NamedTuple):
    """A model of an ensemble.

    Attributes:
      label: its name in tables.
      folder: its folder, which names it in messages.
      evaluation: its evaluation.
      load: returns its `(params, model_state)`.
      identity: its identity.
    """

    label: str
    folder: str
    evaluation: RunEvaluation
    load: Callable[[], tuple[Tree, Tree]]
    identity: ModelIdentity


def open_ensemble(members: Sequence[Member], split: str | None) -> Opened:
    """Returns several models as one, evaluated by the evaluators of the first.

    Args:
      members: the models.
      split: `Request.split`.

    Raises:
      UserError: a model lacks an evaluator, or the models read different items.
    """
    first = members[0]
    suite = first.evaluation.suite

    def subjects() -> Iterator[Subject]:
        found: list[tuple[ModelProvider, Callable[[Items], Items]]] = []
        for each in members:
            own = _own_items(suite, each.evaluation.suite, split, (first.folder, each.folder))
            found.append((each.evaluation.provider(*each.load()), own))
        labels = [each.label for each in members]
        note = f"Scores are means of those of {' and '.join(labels)}."
        yield Subject(" + ".join(labels), Ensemble(found), lambda items: [note])

    identity = ModelIdentity.of_several([each.identity for each in members])
    return Opened(suite, subjects(), identity, first.evaluation.parts.settings.tensorboard)


def _own_items(
    first: EvalSuite, other: EvalSuite, split: str | None, folders: tuple[str, str]
) -> Callable[[Items], Items]:
    """Returns the function from the first model's items to another's, read by its own tokenizer.

    Raises:
      UserError: an evaluator uses different items for the models; ids may coincide.
    """
    own = {}
    for name in first.options:
        lookup(f"config.evals of {folders[1]}", name, other.options)
        chosen = first.split_of(name, split)
        evaluated = [cast(Split, each.items(name, chosen)) for each in (first, other)]
        for split_read in (chosen, *first.options[name].splits_read):
            ours, theirs = (
                each if split_read == chosen else each.beside(split_read) for each in evaluated
            )
            common = ours.hashes.keys() & theirs.hashes.keys()
            if any(ours.hashes[key] != theirs.hashes[key] for key in common) or not np.array_equal(
                ours.caption_texts, theirs.caption_texts
            ):
                raise UserError(
                    f"The evaluator {name!r} of {folders[0]} and of {folders[1]} uses different "
                    f"records of the split {split_read!r}; only models on the same images and "
                    "captions can be averaged."
                )
            own[id(ours)] = cast(Items, theirs)
    return lambda items: own[id(items)]
