"""The examples of a step, as a pure function of the seed and the step.

No state is carried from step to step, so resuming, rewinding and changing the number of processes
need no saved state. All randomness comes from the raw bits of NumPy's Philox generator, whose
stream is guaranteed not to change between NumPy versions (its permutation and integer methods are
not).
"""

import dataclasses
import functools

import numpy as np

_ORDER, _CAPTIONS, _AUGMENTATION, _TEXT, _MINED, _MINED_AUGMENTATION = range(6)


@dataclasses.dataclass(frozen=True)
class Order:
    """Order of the training examples: each epoch is a permutation of all examples.

    Leftover examples at the end of an epoch, fewer than a batch, are dropped.

    Attributes:
      seed: seed of the run.
      num_examples: examples in an epoch.
      batch_size: global batch size, at most `num_examples`.
    """

    seed: int
    num_examples: int
    batch_size: int

    def epoch(self, step: int) -> int:
        """Epoch of a step, starting at 0; a batch never spans two epochs."""
        return step // (self.num_examples // self.batch_size)

    def examples(self, step: int) -> np.ndarray:
        """Indices of the examples of a step's global batch, int64 [B]."""
        start = step % (self.num_examples // self.batch_size) * self.batch_size
        epoch_order = _permutation(self.seed, self.epoch(step), self.num_examples)
        return epoch_order[start : start + self.batch_size]

    def caption_draws(self, step: int, captions: int) -> np.ndarray:
        """Random numbers that choose the captions of a step's examples.

        Returns:
          Non-negative int64 [B, captions] that depend only on (seed, epoch, example).
        """
        epoch = self.epoch(step)
        return _draws(self.seed, _CAPTIONS, epoch, self.num_examples, captions)[self.examples(step)]

    def augmentation_seeds(self, step: int) -> np.ndarray:
        """Seeds for image augmentation, int64 [B, 2], from (seed, epoch, example)."""
        return self._seeds(_AUGMENTATION, step, self.examples(step))

    def mined_draws(self, step: int) -> np.ndarray:
        """Random numbers that choose mined negatives, from (seed, step, row).

        Returns:
          Non-negative int64 [B, 2].
        """
        return _draws(self.seed, _MINED, step, self.batch_size, 2)

    def mined_augmentation_seeds(self, step: int) -> np.ndarray:
        """Seeds for the augmentation of mined images, int64 [B, 2, 2]; see `mined_draws`."""
        items = self.examples(step)[:, None] * 2 + np.arange(2)
        return self._seeds(_MINED_AUGMENTATION, step, items)

    def text_seeds(self, step: int, captions: int) -> np.ndarray:
        """Seeds for caption augmentation, int64 [B, C, 2], from (seed, epoch, example)."""
        examples = self.examples(step)[:, None]
        return self._seeds(_TEXT, step, examples * captions + np.arange(captions))

    def _seeds(self, stream: int, step: int, items: np.ndarray) -> np.ndarray:
        (key,) = _bits(self.seed, stream, self.epoch(step), 1).view(np.int64)
        return np.stack([np.full_like(items, key), items], axis=-1)


def _bits(seed: int, stream: int, epoch: int, count: int) -> np.ndarray:
    generator = np.random.Philox(np.random.SeedSequence((seed, stream, epoch)))
    return generator.random_raw(count)


@functools.lru_cache(maxsize=2)
def _permutation(seed: int, epoch: int, num_examples: int) -> np.ndarray:
    return np.argsort(_bits(seed, _ORDER, epoch, num_examples), kind="stable")


@functools.lru_cache(maxsize=2)
def _draws(seed: int, stream: int, epoch: int, rows: int, columns: int) -> np.ndarray:
    bits = _bits(seed, stream, epoch, rows * columns) >> np.uint64(1)
    return bits.astype(np.int64).reshape(rows, columns)
