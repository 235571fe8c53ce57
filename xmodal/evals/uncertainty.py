"""95 % confidence intervals: a bootstrap over images.

Queries that show or describe one image, such as its five captions, succeed and fail together, so
images are what is resampled, with replacement. All metrics of a board, and two models on one
board, meet the same resamples: means over tasks and differences between models keep what their
parts have in common.
"""

import numpy as np

from xmodal.evals.results import BoardResult, TaskResult, metric_tag
from xmodal.evals.retrieval import MEDIAN_RANK, has_median_rank

_PERCENTILES = (2.5, 97.5)
_WINDOW_DEVIATIONS = (
    5.0  # half-width of the window of medians: about one resample in a million leaves it
)
_SAMPLES_PER_CHUNK = 64  # of those that left it: they look at all queries


class Resamples:
    """How often every image is in every resample.

    Attributes:
      counts: uint8 [N, S].
    """

    def __init__(self, num_images: int, *, samples: int, seed: int) -> None:
        """Draws N of N images with replacement, S times.

        Args:
          num_images: N.
          samples: S.
          seed: same seed, same resamples.
        """
        generator = np.random.default_rng(seed)
        # A byte is enough: 256 copies of one image have a chance below 1e-500.
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
        """Prepares the bootstrap.

        Args:
          samples: S, resamples of every metric.
          seed: same seed, same resamples.
        """
        self._samples = samples
        self._seed = seed
        self._drawn: dict[int, Resamples] = {}

    def resample(self, board: BoardResult) -> dict[str, np.ndarray]:
        """Every metric of every retrieval task, recomputed on each resample.

        The images of a board are those that any of its tasks asks about.

        Returns:
          `<board>/<task>/<metric>` -> float64 [S]; NaN where a resample has no query of the task.
        """
        if not board.tasks:
            return {}
        images = np.unique(np.concatenate([task.clusters for task in board.tasks.values()]))
        if len(images) not in self._drawn:
            drawn = Resamples(len(images), samples=self._samples, seed=self._seed)
            self._drawn[len(images)] = drawn
        resamples = self._drawn[len(images)]
        return {
            metric_tag(board.name, name, metric): values
            for name, task in board.tasks.items()
            for metric, values in _resample_task(task, images, resamples).items()
        }


def resample_means(values: np.ndarray, images: np.ndarray, resamples: Resamples) -> np.ndarray:
    """Means over the queries of every resample.

    Args:
      values: float64 [Q, M], M metrics of every query.
      images: int [Q], the image of every query, 0..N-1.
      resamples: of N images.

    Returns:
      float64 [S, M]; NaN for a resample without queries.
    """
    columns = [None, *values.T]  # without weights, queries are counted
    per_image = [_sum_by_image(images, resamples, column) for column in columns]
    sums = resamples.compute_sums(np.stack(per_image, axis=1))
    with np.errstate(invalid="ignore"):
        return sums[:, 1:] / sums[:, :1]


def resample_median_ranks(rank: np.ndarray, images: np.ndarray, resamples: Resamples) -> np.ndarray:
    """Median rank of every resample, by the convention of `retrieval.compute_median_rank`.

    Sorted by rank, the median of a resample lies near that of all queries: what is ahead of a
    window around it is counted by one product, and only the window is looked at query by query.

    Args:
      rank: int [Q], 0-based.
      images: int [Q], the image of every query, 0..N-1.
      resamples: of N images.

    Returns:
      float64 [S]; NaN for a resample without queries.
    """
    order = np.argsort(rank, kind="stable")
    rank, images = rank[order], images[order]
    middle = len(rank) // 2
    sizes = _sum_by_image(images, resamples)
    # The place of a resample's median varies as the sum over images of this excess does.
    excess = _sum_by_image(images[:middle], resamples) - sizes / 2
    half_width = 2 + int(_WINDOW_DEVIATIONS * np.sqrt((excess * excess).sum()))
    start, stop = max(0, middle - half_width), min(len(rank), middle + half_width)
    ahead = _sum_by_image(images[:start], resamples)
    total, ahead = resamples.compute_sums(np.stack([sizes, ahead], axis=1)).T.astype(np.int32)
    medians, outside = _find_medians(
        rank[start:stop], resamples.counts[images[start:stop]], ahead, total
    )
    for begin in range(0, len(outside), _SAMPLES_PER_CHUNK):
        left = outside[begin : begin + _SAMPLES_PER_CHUNK]
        counts = resamples.counts[:, left][images]
        medians[left], _ = _find_medians(rank, counts, np.zeros_like(total[left]), total[left])
    medians[total == 0] = np.nan
    return medians


def compute_interval(samples: np.ndarray) -> tuple[float, float]:
    """Limits of the middle 95 % of the samples, rounded outwards to samples that occurred.

    Args:
      samples: float64 [S]; undefined ones (NaN) are left out.

    Returns:
      Lower and upper limit, NaN where no sample is defined.
    """
    samples = samples[~np.isnan(samples)]
    if len(samples) == 0:
        return np.nan, np.nan
    low, high = _PERCENTILES
    return (
        float(np.percentile(samples, low, method="lower")),
        float(np.percentile(samples, high, method="higher")),
    )


def _resample_task(
    task: TaskResult, images: np.ndarray, resamples: Resamples
) -> dict[str, np.ndarray]:
    at = np.searchsorted(images, task.clusters)
    found = {}
    if task.values:
        means = resample_means(np.stack(list(task.values.values()), axis=1), at, resamples)
        found = dict(zip(task.values, means.T, strict=True))
    if has_median_rank(task):
        found[MEDIAN_RANK] = resample_median_ranks(task.rank, at, resamples)
    return found


def _sum_by_image(
    images: np.ndarray, resamples: Resamples, values: np.ndarray | None = None
) -> np.ndarray:
    """float64 [N], sums of the queries' values, or their number."""
    sums = np.bincount(images, values, minlength=len(resamples.counts))
    return sums.astype(np.float64)


def _find_medians(
    rank: np.ndarray, counts: np.ndarray, ahead: np.ndarray, total: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Medians that lie within a window of the sorted queries.

    Args:
      rank: int [w], ranks within the window, rising.
      counts: uint8 [w, S], how often every query is in every resample.
      ahead: int32 [S], queries before the window.
      total: int32 [S], all queries.

    Returns:
      float64 [S] median ranks, and the int64 indices of the resamples whose median lies outside.
    """
    places = ahead + np.cumsum(counts, axis=0, dtype=np.int32)  # of the last copy, 1-based
    lower, upper = (total - 1) // 2, total // 2  # the two middle places, 0-based, often the same
    first, second = ((places <= place).sum(axis=0) for place in (lower, upper))
    outside = (ahead > lower) | (second >= len(rank))
    found = ~outside
    medians = np.full(len(total), np.nan)
    medians[found] = (rank[first[found]].astype(np.int64) + rank[second[found]]) // 2 + 1
    return medians, np.flatnonzero(outside & (total > 0))
