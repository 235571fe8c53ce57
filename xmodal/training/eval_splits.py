"""Splits that evaluators judge, of the run's dataset or of others, with the run's tokenizer."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from xmodal import data
from xmodal.evals.embed import Items
from xmodal.evals.evaluators import Options


@dataclasses.dataclass(frozen=True)
class SplitSource:
    """The dataset of one evaluator.

    Attributes:
      run: `config.data` of the run, whose tokenizer reads every text.
      own: `config.data` with the changes of the evaluator.
      has_pairs: whether the records are sentence pairs.
      is_own_dataset: whether the evaluator names a dataset.
    """

    run: data.DataConfig
    own: data.DataConfig
    has_pairs: bool
    is_own_dataset: bool

    @classmethod
    def of(cls, run: Mapping[str, Any], options: Options) -> "SplitSource":
        """Returns the source of an evaluator with these options in a run with this data.

        Raises:
          UserError: an unknown key or a value out of range in the evaluator's section `data`.
        """
        own = dict(run) | {"labels": options.labels_read} | dict(options.data or {})
        # Boards of images alone rest on the captions' ids, too.
        own["text"] = own.get("text") or {}
        return cls(data.parse(run), data.parse(own), options.type == "pairs", bool(options.data))

    def check(self, split: str) -> None:
        """Refuses a dataset or split that is missing, or records without a needed column.

        Raises:
          UserError: says which.
          data.DatasetMissingError: says how to get the dataset.
        """
        if self.has_pairs:
            data.sentence_pairs(self.own, split)
        else:
            data.prepare(self.own, splits=[split])

    def open(self, split: str) -> Items:
        """Returns a split of the dataset."""
        if self.has_pairs:
            return SentencePairs(self, split)
        opened = data.eval_split(self.own, split=split)
        return RetokenizedSplit(self, opened) if self.is_own_dataset else opened


class RetokenizedSplit:
    """A split of another dataset, whose captions the run's tokenizer reads."""

    def __init__(self, source: SplitSource, split: data.EvalSplit) -> None:
        self._source, self._split = source, split

    def __getattr__(self, name: str) -> Any:
        return getattr(self._split, name)

    def captions(self, batch_size: int) -> Iterator[dict[str, np.ndarray]]:
        """See `data.EvalSplit.captions`."""
        texts = self._split.caption_texts
        return _with_ids(self._source.run, texts, self._split.caption_ids, batch_size)


class SentencePairs:
    """Scored sentence pairs as a split of records with two captions each, see `evals.Split`.

    Attributes:
      labels: `score`, `set` (name and year, "images2014") and `average` (a year or 0).
    """

    ratings: Mapping[str, Any] = {}
    label_names: Mapping[str, Any] = {}
    categories = caption_categories = None
    partial = ""

    def __init__(self, source: SplitSource, split: str) -> None:
        pairs = data.sentence_pairs(source.own, split)
        self._config = source.run
        self.name, self.split = source.own.dataset, split
        self.hashes = data.split_hashes(source.own, split)
        self.image_ids = np.asarray(pairs["ids"])
        count = len(self.image_ids)
        self.caption_ids = np.arange(2 * count, dtype=np.int32)
        self.caption_image_ids = np.repeat(self.image_ids, 2)
        sides = zip(pairs["left"], pairs["right"], strict=True)
        self.caption_texts = [text for pair in sides for text in pair]
        parts = [name.split("/", 1) for name in pairs["sets"]]
        self.labels = {
            "score": np.asarray(pairs["scores"]),
            "set": np.array([name + year.lstrip("0") for year, name in parts]),
            "average": np.asarray(pairs["averages"]),
        }

    def images(self, batch_size: int) -> Iterator[dict[str, np.ndarray]]:
        """Yields nothing: the records have no images."""
        return iter(())

    def captions(self, batch_size: int) -> Iterator[dict[str, np.ndarray]]:
        """Yields columns of the sentences with `caption_id` [b], the pairs one after the other."""
        return _with_ids(self._config, self.caption_texts, self.caption_ids, batch_size)


def _with_ids(
    config: data.DataConfig, texts: list[str], ids: np.ndarray, batch_size: int
) -> Iterator[dict[str, np.ndarray]]:
    for number, batch in enumerate(data.text_batches(config, texts, batch_size)):
        rows = slice(number * batch_size, (number + 1) * batch_size)
        yield batch | {"caption_id": ids[rows]}
