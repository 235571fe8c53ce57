"""95 % confidence intervals: a bootstrap over images.

Queries that show or describe one image, such as its five captions, succeed and fail together, so
images are resampled, with replacement. All metrics of a benchmark, and two models on one benchmark,
use the
same resamples: means over directions and differences between models keep the variation that their
parts share.
"""

import functools

import numpy as np

from xmodal.evals.reports.metrics import MEDIAN_RANK
from xmodal.evals.reports.results import BenchmarkResult, metric_tag

_PERCENTILES = (2.5, 97.5)
_BLOCKS = 16


class Resamples:
    """How often every image is in every resample: `counts`, float64 [S, N]."""

    def __init__(self, num_images: int, *, samples: int, seed: int) -> None:
        """Draws N of N images with replacement, S times; the same seed gives the same resamples."""
        generator = np.random.default_rng(seed)
        self.counts = np.empty((samples, num_images))
        for row in self.counts:
            images = generator.integers(max(num_images, 1), size=num_images)
            row[:] = np.bincount(images, minlength=num_images)

    def compute_sums(self, per_image: np.ndarray) -> np.ndarray:
        """Sums over the images of every resample: float64 [N, M] -> float64 [S, M]."""
        return self.counts @ per_image

    def compute_medians(self, rank: np.ndarray, images: np.ndarray) -> np.ndarray:
        """Returns the median rank of every resample, float64 [S]; NaN without queries.

        Args:
          rank: int [Q], 0-based rank of every query.
          images: int [Q], the image of every query.
        """
        order = np.argsort(rank, kind="stable")
        rank, images = rank[order].astype(np.int64), images[order]
        # Queries are counted by blocks, and one by one only in the block of the median.
        size = -(-len(rank) // _BLOCKS) or 1
        keys = images.astype(np.int64) * _BLOCKS + np.arange(len(rank)) // size
        table = np.bincount(keys, minlength=self.counts.shape[1] * _BLOCKS)
        sums = self.compute_sums(table.reshape(-1, _BLOCKS).astype(np.float64))
        ends = np.cumsum(sums, axis=1)
        medians = np.full(len(self.counts), np.nan)
        for sample in np.flatnonzero(ends[:, -1]):
            total, end = int(ends[sample, -1]), ends[sample]
            middle = np.array([(total - 1) // 2, total // 2])
            first, last = np.searchsorted(end, middle, side="right")
            start = first * size
            places = np.cumsum(self.counts[sample][images[start : (last + 1) * size]])
            places += end[first] - sums[sample, first]  # Of the last copy of a query, from 1.
            chosen = rank[start + np.searchsorted(places, middle, side="right")]
            medians[sample] = chosen.sum() // 2 + 1
        return medians


class Bootstrap:
    """Resamples benchmarks; benchmarks with the same number of images share their resamples."""

    def __init__(self, *, samples: int = 1000, seed: int = 0) -> None:
        self._draw = functools.cache(functools.partial(Resamples, samples=samples, seed=seed))

    def resample(self, benchmark: BenchmarkResult) -> dict[str, np.ndarray]:
        """Returns every metric of every direction, recomputed on each resample.

        The images of a benchmark are those in any of its directions. Tags map to float64 [S], with
        NaN if a resample has no query of the direction.
        """
        directions = benchmark.directions
        if not directions:
            return {}
        images = np.unique(np.concatenate([each.clusters for each in directions.values()]))
        drawn = self._draw(len(images))
        at = {name: np.searchsorted(images, each.clusters) for name, each in directions.items()}
        columns = [
            np.bincount(at[name], values, len(images))
            for name, each in directions.items()
            for values in (None, *each.values.values())
        ]
        # One product for the whole benchmark, since every product reads the large matrix.
        sums = iter(drawn.compute_sums(np.stack(columns, axis=1).astype(np.float64)).T)
        found = {}
        for name, each in directions.items():
            queries = next(sums)
            for metric in each.values:
                with np.errstate(invalid="ignore"):  # 0 / 0 for a resample without queries.
                    found[metric_tag(benchmark.name, name, metric)] = next(sums) / queries
            if each.has_median:
                medians = drawn.compute_medians(each.rank, at[name])
                found[metric_tag(benchmark.name, name, MEDIAN_RANK)] = medians
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
