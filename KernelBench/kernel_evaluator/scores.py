"""Every score of the benchmark as a pure function of speedups. Knows no files, no rows and no torch.

A list of speedups holds one item a problem: a number where the kernel is correct and timed, None where it is
missing or failed. `count` is the fixed number of problems that a rate is over; it is never less than the
number of items given.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import cast

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 10_000
SEED = 20_250_701
"""The bootstrap's seed: the same rows give the same intervals and ranks everywhere."""

ELSEWHERE_SHARE = 0.025
"""What is published is wider by this share to either side than the interval of one judging.

Another GPU of the model moves a kernel's speedup, and another hour; the rounds of one process do not show it.
So widened, to the next half per cent, the intervals of 69 of 72 kernels held what another machine gave
(`benchmarks/results/again-H200.json`).
"""

Interval = tuple[float, float]
Speedups = Iterable[float | None]
Gains = NDArray[np.float64]
"""Logarithms of what a user gains a problem: never negative, 0 where PyTorch stays."""


def speedup(baseline: float, actual: float) -> float:
    """Give baseline over actual; raise ValueError where either time is not positive and finite."""
    for name, value in (("baseline", baseline), ("actual", actual)):
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"{name} time must be positive and finite, got {value}")
    return baseline / actual


def correct_speedups(
    correct: Sequence[bool | int], baseline: Sequence[float], actual: Sequence[float]
) -> list[float | None]:
    """Pair times up: the speedup where the kernel is correct and its time is positive, else None."""
    if not len(correct) == len(baseline) == len(actual):
        raise ValueError(f"lengths must agree, got {len(correct)}, {len(baseline)} and {len(actual)}")
    return [
        speedup(before, after) if ok and after > 0 else None
        for ok, before, after in zip(correct, baseline, actual, strict=True)
    ]


def geomean(values: Speedups) -> float | None:
    """Give the geometric mean over the correct kernels, in log space; None where there are none."""
    logs = [math.log(value) for value in values if value is not None]
    return math.exp(math.fsum(logs) / len(logs)) if logs else None


def geomean_faster_only(values: Speedups) -> float | None:
    """Give the geometric mean over the correct kernels with speedup > 1; None where there are none."""
    return geomean(value for value in values if value is not None and value > 1)


def fast_p(values: Speedups, p: float, count: int) -> float:
    """Give KernelBench's fast_p: the share with speedup > p, strictly; 0 of 0 problems is 0."""
    return _share(sum(value is not None and value > p for value in values), count)


def fast_at_p(values: Speedups, p: float, count: int) -> float:
    """Give the board's fast@p: the share with speedup >= p; 0 of 0 problems is 0."""
    return _share(sum(value is not None and value >= p for value in values), count)


def rate(hits: int, count: int) -> float:
    """Give hits over the fixed count of problems; 0 of 0 problems is 0."""
    return _share(hits, count)


def deployed_speedup(values: Speedups, count: int) -> float:
    """Give the geometric mean over all problems of max(1, speedup if correct else 1); 1 for no problems."""
    logs = [math.log(value) for value in values if value is not None and value > 1]
    return math.exp(math.fsum(logs) / count) if count else 1.0


def published_interval(interval: Interval | None) -> Interval | None:
    """Give a speedup's interval as boards show and compare it: one that holds on other GPUs of the model."""
    if interval is None:
        return None
    low, high = interval
    return low * (1 - ELSEWHERE_SHARE), high * (1 + ELSEWHERE_SHARE)


def intervals_apart(one: Interval, other: Interval) -> float:
    """Give the share by which two intervals of speedups lie apart; 0 where they meet."""
    return max(one[0] / other[1], other[0] / one[1], 1.0) - 1.0


def straddles(interval: Interval | None, p: float) -> bool:
    """Say whether the threshold lies inside the interval, so that the side it falls on is uncertain."""
    return interval is not None and interval[0] < p < interval[1]


def pass_at_k(samples: int, correct: int, k: int) -> float:
    """Give the unbiased estimate that one of k samples is correct, out of `samples` with `correct` correct.

    `k` beyond the number of samples is clamped to it. No samples give 0.
    """
    if not 0 <= correct <= samples or k < 1:
        raise ValueError(f"need 0 <= correct <= samples and k >= 1, got {correct}, {samples}, {k}")
    k = min(k, samples)
    if samples - correct < k:
        return 1.0 if correct else 0.0
    return 1.0 - math.prod(1.0 - k / i for i in range(samples - correct + 1, samples + 1))


def percentiles(values: Speedups, wanted: Iterable[int] = (10, 25, 50, 75, 90)) -> dict[int, float]:
    """Give percentiles over the correct kernels, linearly interpolated; empty where there are none."""
    known = [value for value in values if value is not None]
    at = tuple(wanted)
    return dict(zip(at, np.percentile(known, at).tolist(), strict=True)) if known else {}


def log_gains(values: Speedups) -> Gains:
    """Give log(max(1, speedup)) a problem, 0 where the kernel is missing or failed."""
    return np.array([math.log(value) if value is not None and value > 1 else 0.0 for value in values])


def geomean_intervals(gains: Mapping[str, Gains]) -> dict[str, Interval]:
    """Give the 95 % bootstrap interval of each geometric mean over problems; gains are logarithms."""
    if not gains:
        return {}
    means = _resampled_means(np.vstack(list(gains.values())))
    low, high = np.exp(np.percentile(means, (2.5, 97.5), axis=0))
    return {name: (float(low[at]), float(high[at])) for at, name in enumerate(gains)}


def shared_ranks(gains: Mapping[str, Gains]) -> dict[str, int]:
    """Rank entries by deployed speedup, best first; entries that cannot be told apart share a rank.

    A rank's leader is its best entry. An entry shares the leader's rank unless the leader stays ahead in
    97.5 % of the resamples of the problems, the same for both, though all its kernels were slower by
    ELSEWHERE_SHARE: so much may be the machine's. The first that does not share it leads the next rank,
    numbered by its place. All entries give gains over the same problems in the same order.
    """
    if not gains:
        return {}
    names = sorted(gains, key=lambda name: (-float(gains[name].sum()), name))
    means = _resampled_means(np.vstack([gains[name] for name in names]))
    ranks: dict[str, int] = {}
    leader, slowed = 0, _slowed_means(gains[names[0]])
    for place, name in enumerate(names):
        if np.percentile(slowed - means[:, place], 2.5) > 0:
            leader, slowed = place, _slowed_means(gains[name])
        ranks[name] = leader + 1
    return ranks


def _slowed_means(gains: Gains) -> Gains:
    """Resample what would be left of gains on a machine that runs their kernels slower."""
    return _resampled_means(np.maximum(gains - math.log1p(ELSEWHERE_SHARE), 0.0)[np.newaxis, :])[:, 0]


def _resampled_means(gains: Gains) -> Gains:
    """Resample the problems once for all entries, so that differences of columns are paired."""
    problems = gains.shape[1]
    if problems == 0:
        return np.zeros((RESAMPLES, gains.shape[0]))
    return cast(Gains, _weights(problems) @ gains.T / problems)


@cache
def _weights(problems: int) -> Gains:
    """How often each problem was drawn, one resample a line."""
    generator = np.random.default_rng(SEED)
    drawn = generator.multinomial(problems, np.full(problems, 1 / problems), size=RESAMPLES)
    return drawn.astype(np.float64)


def _share(hits: int, count: int) -> float:
    if hits > count:
        raise ValueError(f"{hits} of {count} problems cannot count: the count must cover every item")
    return hits / count if count else 0.0
