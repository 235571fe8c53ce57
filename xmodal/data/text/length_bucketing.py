"""The shortest texts of a training batch, which are padded less than the others."""

import dataclasses

import numpy as np

from xmodal.core.config import setting


@dataclasses.dataclass(frozen=True)
class LengthBucketing:
    """`config.data.length_bucketing`: a second length within a batch.

    The shortest texts of every device, and of every part of an accumulated batch, are padded to a
    length of their own, and their modality of the model embeds them apart from the others. A batch
    with fewer texts of at most that length is padded to `text.max_length` as a whole. Losses do not
    change; random numbers of the text tower, such as dropout's, depend on the number of devices.

    Attributes:
      length: number of ids of the short texts.
      share: their share, rounded down to whole rows of a batch; none of a single row.
    """

    length: int = setting(at_least=1)
    share: float = setting(above=0, below=1)

    def count(self, rows: int) -> int:
        """Returns the number of short texts at every caption position of `rows` rows."""
        return int(self.share * rows)

    def rank(self, lengths: np.ndarray, devices: int, parts: int) -> np.ndarray | None:
        """Returns the place of every text by length, or None if too few texts are short.

        Args:
          lengths: numbers of real ids of the texts of a global batch, int [B, C].
          devices: number of devices that share the batch, B / devices successive rows each.
          parts: number of parts that a device splits its rows into, see `train.step.accumulation`.

        Returns:
          int32 [B, C], from 0 for the shortest of the texts at the same position of the rows of one
          device and part.
        """
        groups = lengths.reshape(devices, -1, parts, lengths.shape[1])
        ranks = np.argsort(np.argsort(groups, axis=1, kind="stable"), axis=1)
        is_short = ranks < self.count(groups.shape[1])
        if np.any(groups[is_short] > self.length):
            return None
        return ranks.astype(np.int32).reshape(lengths.shape)
