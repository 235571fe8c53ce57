"""Hits of a query."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Hit:
    """An item that was found.

    Attributes:
      rank: rank, starting at 1.
      row: its position in the index.
      item: path, caption, or image of a dataset.
      score: larger is more similar.
      definition: names the score, the model's similarity.
    """

    rank: int
    row: int
    item: str
    score: float
    definition: str = ""
