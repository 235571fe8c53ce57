"""Facts that a config needs about its training data: examples, vocabulary and hashes."""

import dataclasses

from xmodal import data
from xmodal.base import processes
from xmodal.preprocessing import read_vocabulary
from xmodal.runs.folder import run_folder
from xmodal.runs.folder.run_folder import Records


@dataclasses.dataclass(frozen=True)
class DatasetFacts:
    """Facts about the training data.

    Attributes:
      records: `train`, the hash of the training split by its name and version, see
        `data.split_hashes`; `examples`, the examples of an epoch. Empty if they are not known.
      entries: entries of the vocabulary; None if it is not known, or there are no texts.
      missing: why the dataset is not known; "" if it is.
    """

    records: Records = dataclasses.field(default_factory=dict)
    entries: int | None = None
    missing: str = ""

    @property
    def examples(self) -> int | None:
        """Examples of an epoch; None if they are not known."""
        return self.records.get("examples")


def facts_without_data(config: data.DataConfig, run_dir: str | None) -> DatasetFacts:
    """Returns what is known without the dataset.

    Args:
      config: the training data.
      run_dir: the run's folder, whose records are used if it is resumed; None for no run.

    Raises:
      UserError: the file of the vocabulary does not exist.
    """
    file = "" if config.text is None else config.text.vocabulary
    return DatasetFacts(
        records=run_folder.load_records(run_dir) if run_dir else {},
        entries=len(read_vocabulary(file)) if file else None,
        missing="the dataset has not been opened",
    )


def ask_dataset(config: data.DataConfig, train_split: str) -> DatasetFacts:
    """Prepares the training data if necessary, learns the vocabulary, and returns the facts.

    Args:
      config: the training data.
      train_split: split that the run trains on.

    Raises:
      UserError: the split or a column is missing, or an image has too few captions.
      data.DatasetMissingError: the dataset is missing; says how to get it.
    """
    data.prepare(config, splits=[train_split])

    def read_captions() -> int:
        if config.text is not None:
            data.load_vocabulary(config, train_split)
        return data.num_train_examples(config, train_split)

    # Columns and vocabularies are written beside the dataset for the other processes.
    processes.first_does("read the captions of the training split", read_captions)
    examples = read_captions()
    entries = None if config.text is None else data.vocabulary_size(config, train_split)
    hashes = data.split_hashes(config, train_split)
    return DatasetFacts({"train": hashes, "examples": examples}, entries)
