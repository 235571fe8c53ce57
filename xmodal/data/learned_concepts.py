"""The concepts of a run, read from their file or learned from the training captions."""

from absl import logging

from data_prep.concept_counts import count_concepts
from xmodal.data.data_config import DataConfig
from xmodal.data.datasets import read_captions
from xmodal.data.text.concept_graph import Concepts, parse_concepts, read_concepts


def load_concepts(
    file: str, config: DataConfig, count: int, train_split: str = "train"
) -> Concepts:
    """Returns the concepts of a file, or those that most training captions name.

    Args:
      file: written by `python -m data_prep.concepts`; "" to learn them. Learned concepts are words
        as they are written, so that the singular and the plural are two.
      config: see `DataConfig`.
      count: K, number of concepts to learn.
      train_split: split whose captions they are learned from.

    Raises:
      UserError: the file is missing or damaged, or the dataset has no captions.
    """
    if file:
        return read_concepts(file)
    concepts = parse_concepts(count_concepts(read_captions(config, train_split), count=count))
    logging.info(
        "Concepts are the %d most frequent words of the captions, such as %s; "
        "`python -m data_prep.concepts` writes a file of lemmas for config.init_from.concepts.",
        len(concepts.words),
        ", ".join(concepts.words[:5]),
    )
    return concepts
