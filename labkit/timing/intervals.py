"""Confidence intervals that assume no distribution: of a median, and of a ratio of two interleaved series."""

from __future__ import annotations

import functools
import math
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

CHUNKS = 60
RESAMPLES = 2000


@functools.cache
def _rank(count: int, confidence: float) -> int:
    """Largest k for which the k-th smallest to the k-th largest of `count` values cover the median."""
    tail = (1 - confidence) / 2
    if count > 400:
        z = NormalDist().inv_cdf(1 - tail)
        return math.floor((count - z * math.sqrt(count)) / 2)
    below, k = 0.0, 0
    while (below := below + math.comb(count, k) / 2**count) <= tail:
        k += 1
    return max(k, 1)


def median_interval(values: ArrayLike, confidence: float = 0.95) -> tuple[float, float]:
    """The interval of the median by order statistics: binomial, whatever the distribution.

    values: independent samples, at least one. With fewer than six the whole range is returned, which
    covers the median in 1 - 2^(1-n) of cases. Source: Conover, Practical Nonparametric Statistics, 3.2.
    """
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    k = _rank(len(ordered), confidence)
    return float(ordered[k - 1]), float(ordered[-k])


def midmean(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean of the middle half along the last axis: no outlier moves it, no clock's step shows in it."""
    ordered = np.sort(values, axis=-1)
    cut = ordered.shape[-1] // 4
    return np.asarray(ordered[..., cut : ordered.shape[-1] - cut].mean(axis=-1))


def _widening(count: int, confidence: float) -> float:
    """By how much a percentile bootstrap of `count` values is too narrow: Student's t ÷ normal, √(n/(n-1)).

    Source: Hesterberg, What Teachers Should Know About the Bootstrap (2015), expanded percentile interval;
    t by its Cornish-Fisher series (Abramowitz and Stegun 26.7.5).
    """
    z, n = NormalDist().inv_cdf((1 + confidence) / 2), count - 1
    t = z + (z**3 + z) / (4 * n) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n * n)
    return t / z * math.sqrt(count / n)


def ratio_interval(a: ArrayLike, b: ArrayLike, confidence: float = 0.99) -> tuple[float, float, float]:
    """Ratio a ÷ b of two series sampled in turn, with the low and high end of its bootstrap interval.

    a, b: positive; a[i] and b[i] were taken next to each other, so that a drifting clock cancels in a pair.
    The pairs are put into up to 60 chunks in the order of time, and whole chunks are drawn, because
    neighbours may be alike.
    """
    logs = np.log(np.asarray(a, dtype=np.float64) / np.asarray(b, dtype=np.float64))
    chunks = np.array([midmean(c) for c in np.array_split(logs, min(len(logs), CHUNKS))])
    middle = float(midmean(chunks))
    if len(chunks) < 3:
        return math.exp(middle), 0.0, math.inf
    draws = np.random.default_rng(0).integers(0, len(chunks), (RESAMPLES, len(chunks)))
    tails = np.quantile(midmean(chunks[draws]), [(1 - confidence) / 2, (1 + confidence) / 2])
    low, high = middle + (tails - middle) * _widening(len(chunks), confidence)
    return math.exp(middle), math.exp(low), math.exp(high)
