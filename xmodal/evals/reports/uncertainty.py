"""95 % confidence intervals: a bootstrap over images.

Queries that show or describe one image, such as its five captions, succeed and fail together, so
images are resampled, with replacement. All metrics of a board, and two models on one board, use the
same resamples: means over directions and differences between models keep the variation that their
parts share.
"""

import numpy as np

from xmodal.evals.reports.metrics import MEDIAN_RANK
from xmodal.evals.reports.results import BoardResult, DirectionResult, metric_tag

_PERCENTILES = (2.5, 97.5)
# Half-width of the window of medians: about one resample in a million falls outside.
_WINDOW_DEVIATIONS = 5.0
_SAMPLES_PER_CHUNK = 64  # For those that fell outside, which use all queries.


class Resamples:
    """How often every image is in every resample: `counts`, uint8 [N, S]."""

    def __init__(self, num_images: int, *, samples: int, seed: int) -> None:
        """Draws N of N images with replacement, S times; the same seed gives the same resamples."""
        generator = np.random.default_rng(seed)
        # A byte is enough: the probability of 256 copies of one image is below 1e-500.
        drawn = np.empty((samples, num_images), np.uint8)
        for row in drawn:
            images = generator.integers(max(num_images, 1), size=num_images)
            row[:] = np.bincount(images, minlength=num_images)
        self.counts = np.ascontiguousarray(drawn.T)
        self._weights = drawn.astype(np.float64)

    def compute_sums(self, per_image: np.ndarray) -> np.ndarray:
        """Sums over the images of every resample: float64 [N, M] -> float64 [S, M]."""
        return self._weights @ per_image


class Bootstrap:
    """Resamples boards; boards with the same number of images share their resamples."""

    def __init__(self, *, samples: int = 1000, seed: int = 0) -> None:
        self._samples, self._seed = samples, seed
        self._drawn: dict[int, Resamples] = {}

    def resample(self, board: BoardResult) -> dict[str, np.ndarray]:
        """Returns every metric of every direction, recomputed on each resample.

        The images of a board are those in any of its directions. Tags map to float64 [S], with NaN
        if a resample has no query of the direction.
        """
        if not board.directions:
            return {}
        images = np.unique(
            np.concatenate([direction.clusters for direction in board.directions.values()])
        )
        if len(images) not in self._drawn:
            drawn = Resamples(len(images), samples=self._samples, seed=self._seed)
            self._drawn[len(images)] = drawn
        resamples = self._drawn[len(images)]
        parts = [
            _Part(direction, np.searchsorted(images, direction.clusters), len(images))
            for direction in board.directions.values()
        ]
        # One product for the whole board, since every product reads the large matrix.
        sums = resamples.compute_sums(np.concatenate([part.columns for part in parts], axis=1))
        ends = np.cumsum([part.columns.shape[1] for part in parts])
        found = {}
        for name, part, own in zip(
            board.directions, parts, np.split(sums, ends[:-1], axis=1), strict=True
        ):
            for metric, samples in part.compute_samples(own, resamples.counts).items():
                found[metric_tag(board.name, name, metric)] = samples
        return found


def compute_interval(samples: np.ndarray) -> tuple[float, float]:
    """Returns the limits of the middle 95 % of samples, rounded outward to actual samples.

    Undefined samples (NaN) are ignored; without any defined one, the limits are NaN.
    """
    samples = samples[~np.isnan(samples)]
    if len(samples) == 0:
        return np.nan, np.nan
    low = np.percentile(samples, _PERCENTILES[0], method="lower")
    return float(low), float(np.percentile(samples, _PERCENTILES[1], method="higher"))


class _Part:
    """One direction of a board.

    Attributes:
      columns: float64 [N, M + 1 or M + 2], for each image the terms summed over resamples: its
        queries, the values of M metrics, and queries ahead of the window of the median.
    """

    def __init__(self, direction: DirectionResult, images: np.ndarray, num_images: int) -> None:
        self._metrics = list(direction.values)
        columns = [np.bincount(images, minlength=num_images)]
        columns += [np.bincount(images, v, minlength=num_images) for v in direction.values.values()]
        self._window = None
        if direction.has_median:
            self._window = _MedianWindow(direction.rank, images, columns[0])
            columns.append(self._window.ahead)
        self.columns = np.stack(columns, axis=1).astype(np.float64)

    def compute_samples(self, sums: np.ndarray, counts: np.ndarray) -> dict[str, np.ndarray]:
        """Metric -> float64 [S] from the sums of `columns` [S, ...] and counts uint8 [N, S]."""
        queries, *totals = sums.T
        with np.errstate(invalid="ignore"):  # 0 / 0 for a resample without queries.
            means = [total / queries for total in totals[: len(self._metrics)]]
        found = dict(zip(self._metrics, means, strict=True))
        if self._window is not None:
            # Sums of integers are exact.
            ahead, queries = totals[-1].astype(np.int32), queries.astype(np.int32)
            found[MEDIAN_RANK] = self._window.find_medians(counts, ahead, queries)
        return found


class _MedianWindow:
    """The queries that contain the median of nearly every resample.

    In queries sorted by rank, the median of a resample is near that of all queries: queries ahead
    of a window around it are counted in a product, and only the window is processed by query.

    Attributes:
      ahead: int64 [N], queries of every image that are ahead of the window.
    """

    def __init__(self, rank: np.ndarray, images: np.ndarray, queries: np.ndarray) -> None:
        order = np.argsort(rank, kind="stable")
        self._rank, self._images = rank[order], images[order]
        middle = len(rank) // 2
        # The position of a resample's median varies like the sum of this excess over images.
        excess = np.bincount(self._images[:middle], minlength=len(queries)) - queries / 2
        half_width = 2 + int(_WINDOW_DEVIATIONS * np.sqrt((excess * excess).sum()))
        start = max(0, middle - half_width)
        self._rows = slice(start, middle + half_width)
        self.ahead = np.bincount(self._images[:start], minlength=len(queries))

    def find_medians(self, counts: np.ndarray, ahead: np.ndarray, total: np.ndarray) -> np.ndarray:
        """Median rank of every resample; NaN without queries. Arguments as in `_find_medians`."""
        images = self._images[self._rows]
        medians = _find_medians(self._rank[self._rows], counts[images], ahead, total)
        outside = np.flatnonzero(np.isnan(medians) & (total > 0))
        for begin in range(0, len(outside), _SAMPLES_PER_CHUNK):
            left = outside[begin : begin + _SAMPLES_PER_CHUNK]
            medians[left] = _find_medians(
                self._rank, counts[:, left][self._images], np.zeros((), np.int32), total[left]
            )
        return medians


def _find_medians(
    rank: np.ndarray, counts: np.ndarray, ahead: np.ndarray, total: np.ndarray
) -> np.ndarray:
    """Medians within a window of the sorted queries.

    Args:
      rank: int [w], ranks of the window, ascending.
      counts: uint8 [w, S], how often every query is in every resample.
      ahead: int32 [S], queries ahead of the window.
      total: int32 [S], all queries.

    Returns:
      float64 [S]; NaN where the median is outside the window.
    """
    places = counts.astype(np.int32)  # Widening before summing in place is twice as fast.
    np.cumsum(places, axis=0, out=places)
    places += ahead  # Position of the last copy of every query, counted from 1.
    lower, upper = (total - 1) // 2, total // 2  # The two middle positions, from 0; often equal.
    first, second = ((places <= place).sum(axis=0) for place in (lower, upper))
    inside = (ahead <= lower) & (second < len(rank))
    medians = np.full(len(total), np.nan)
    medians[inside] = (rank[first[inside]].astype(np.int64) + rank[second[inside]]) // 2 + 1
    return medians
