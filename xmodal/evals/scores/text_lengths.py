"""Sizes of batches of texts: few lengths to which they are padded, because each is compiled."""

from collections.abc import Callable, Sequence

import numpy as np

Lengths = Callable[[np.ndarray, int], Sequence[int]]
"""(tokens of every text, int [M], and the largest length) -> padded lengths, ascending."""

# Texts per batch. Larger batches have more padding, and on a CPU they are no faster.
_TEXTS, _TEXTS_OF_CPU = 256, 32
_STEP = 4
# Padding tokens that a new length must save: a third of the tokens that a CPU embeds in the time of
# a compilation, since later texts use the length, too, and later processes read it from a cache. A
# multiple of `_STEP`, which serves more texts, must save half.
_REPAYING = 1000


def multiples(tokens: np.ndarray, longest: int) -> Sequence[int]:
    """Returns all multiples of 4 below the largest length, and this one, see `Lengths`."""
    del tokens
    return [*range(_STEP, longest, _STEP), longest]


class TextLengths:
    """Lengths of texts in batches of similar length.

    On a CPU, they are compiled already or save enough padding; other devices, which compute padding
    in less time than they compile, use all multiples of 4.

    Attributes:
      batch_size: texts per batch by default.
    """

    def __init__(self, fixed: Sequence[int] = (), platform: str = "cpu") -> None:
        """Takes the only possible lengths, if they are fixed, and the platform of the devices."""
        self._fixed, self._on_cpu = fixed, platform == "cpu"
        self.batch_size = _TEXTS_OF_CPU if self._on_cpu else _TEXTS
        self._compiled: dict[int, set[int]] = {}

    def choose(self, tokens: np.ndarray, longest: int, *, batch_size: int) -> Sequence[int]:
        """Returns the lengths, see `Lengths`."""
        if self._fixed or not self._on_cpu:
            return self._fixed or multiples(tokens, longest)
        batch_size = min(batch_size, 1 << (len(tokens) - 1).bit_length())
        compiled = self._compiled.setdefault(batch_size, set())
        ends = np.arange(batch_size, len(tokens) + batch_size, batch_size)
        needed = np.sort(tokens)[np.minimum(ends, len(tokens)) - 1]
        needed = np.maximum(needed, min(_STEP, longest))
        rounded = np.minimum(-(-needed // _STEP) * _STEP, longest)
        known = [length for length in compiled if length >= needed[0]]
        lengths = np.unique(np.concatenate([needed, rounded, known]).astype(int)).tolist()
        common = set(multiples(tokens, longest))
        prices = [
            0 if length in compiled else _REPAYING // (2 if length in common else 1)
            for length in lengths
        ]
        chosen = _choose_cheapest(needed, batch_size, lengths, prices)
        compiled.update(chosen)
        return chosen


def _choose_cheapest(
    needed: np.ndarray, batch_size: int, lengths: Sequence[int], prices: Sequence[int]
) -> list[int]:
    """The lengths with the smallest sum of their prices and of all tokens with padding.

    `needed` are the lengths that the batches need; both lists of lengths are ascending.
    """
    # For every length, the batches that fit; the smallest sum for them if it is the last chosen
    # length; and the one before it. The first entry stands for no length.
    fitting = np.concatenate([[0], np.searchsorted(needed, lengths, side="right")])
    sums, before = np.zeros(len(lengths) + 1), [0]
    for number, (length, price) in enumerate(zip(lengths, prices, strict=True), 1):
        batches = fitting[number] - fitting[:number]
        options = sums[:number] + batches * batch_size * length + price
        before.append(int(np.argmin(options)))
        sums[number] = options[before[number]]
    at = int(np.argmin(np.where(fitting == len(needed), sums, np.inf)))
    chosen = []
    while at:
        chosen.append(lengths[at - 1])
        at = before[at]
    return chosen[::-1]
