"""Splits for evaluators, of the run's or other datasets, with the run's tokenizer."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from xmodal import data
from xmodal.core.errors import UserError
from xmodal.data.text.text_config import TextConfig
from xmodal.evals.evaluators import Options


@dataclasses.dataclass(frozen=True)
class SplitSource:
    """The dataset of one evaluator.

    Attributes:
      run: `config.data` of the run, whose tokenizer is used for every text.
      own: `config.data` with the changes of the evaluator.
      train_split: `config.train_split`, from which the run may have learned its vocabulary.
      is_own_dataset: whether the evaluator names a dataset.
    """

    run: data.DataConfig
    own: data.DataConfig
    train_split: str
    is_own_dataset: bool

    @classmethod
    def of(cls, config: Mapping[str, Any], name: str, options: Options) -> "SplitSource":
        """Returns the source of the evaluator `config.evals.NAME` of a config.

        Raises:
          UserError: an unknown key or a value out of range in the evaluator's section `data`, or
            one of `text` that the run's tokenizer has already decided.
        """
        run, train_split = config["data"], config.get("train_split", "train")
        own = data.with_changes({**run, "labels": options.labels_read}, options.data or {})
        where = f"config.evals.{name}.data"
        found = cls(data.parse(run), data.parse(own, where), train_split, bool(options.data))
        _check_text(where, found.run.text, found.own.text)
        return found

    def with_labels(self, labels: tuple[str, ...]) -> "SplitSource":
        """Returns the same dataset with other label columns."""
        return dataclasses.replace(self, own=dataclasses.replace(self.own, labels=labels))

    def open(self, split: str) -> data.EvalSplit:
        """Returns a split of the dataset."""
        reads_text = self.is_own_dataset and self.run.text is not None
        tokenizer = data.load_tokenizer(self.run, self.train_split) if reads_text else None
        return data.eval_split(
            self.own, split=split, tokenizer=tokenizer, train_split=self.train_split
        )


def _check_text(where: str, run: TextConfig | None, own: TextConfig | None) -> None:
    """Raises an error if an evaluator changes the tokenizer, which would have no effect."""
    if run is None or own is None:
        return
    vocabulary = own.vocabulary or run.vocabulary  # The run may have learned one.
    if dataclasses.replace(own, prompt=run.prompt, vocabulary=vocabulary) != run:
        raise UserError(
            f"{where}.text may only change the prompt: every evaluator reads texts with the "
            "tokenizer of config.data.text."
        )
