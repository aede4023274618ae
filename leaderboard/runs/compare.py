"""Two runs side by side, problem by problem. Pure: takes measured kernels, gives lines and a summary."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np
from kernel_evaluator import scores
from kernel_evaluator.records.keys import KernelKey

from leaderboard.runs.reading import KernelOutcome, Measured
from leaderboard.stages.plan import ProblemKey


@dataclass(frozen=True, kw_only=True)
class Pair:
    """One kernel key in both runs. `ratio`: how many times faster B is, where both are correct and timed."""

    key: KernelKey
    a: KernelOutcome | None
    b: KernelOutcome | None
    ratio: float | None
    clear: bool
    """Whether the intervals of the two speedups lie apart; False where there are none."""


@dataclass(frozen=True, kw_only=True)
class Alike:
    """What two runs have in common, and so what of them can be compared: the references, the machines."""

    references: bool
    machines: bool


@dataclass(frozen=True, kw_only=True)
class EntryComparison:
    """Everything in A or B, by key, and what it comes to."""

    pairs: tuple[Pair, ...]
    a: Measured
    b: Measured

    @property
    def outcomes(self) -> dict[str, int]:
        """Count the keys: correct in both, in one alone, in neither."""
        words = {
            (True, True): "both",
            (True, False): "only A",
            (False, True): "only B",
            (False, False): "neither",
        }
        counts = Counter(words[_correct(pair.a), _correct(pair.b)] for pair in self.pairs)
        return {word: counts[word] for word in words.values()}

    @property
    def on_other_problems(self) -> int:
        """Count the keys under which each run, at the same sizes, solved a problem of another source."""
        if self.a.sizes != self.b.sizes:
            return 0
        return sum(1 for pair in self.pairs if pair.a and pair.b and _on_other_problems(pair.a, pair.b))

    @property
    def ratios(self) -> dict[ProblemKey, float]:
        """How many times faster B is on each problem, the geometric mean where both have several kernels."""
        logs: dict[ProblemKey, list[float]] = defaultdict(list)
        for pair in self.pairs:
            if pair.ratio is not None:
                logs[pair.key.level, pair.key.problem_id].append(math.log(pair.ratio))
        return {problem: math.exp(math.fsum(found) / len(found)) for problem, found in logs.items()}

    @property
    def geomean_ratio(self) -> float | None:
        """The geometric mean of the problems' ratios."""
        return scores.geomean(list(self.ratios.values()))

    @property
    def geomean_ci95(self) -> tuple[float, float] | None:
        """Its 95 % interval, resampled over the problems; None below two problems."""
        if len(self.ratios) < 2:
            return None
        return scores.geomean_intervals({"": np.log(list(self.ratios.values()))})[""]


def compare(a: Measured, b: Measured) -> EntryComparison:
    """Put two runs side by side, largest change first, and what only one of them sent last.

    Speedups that were measured beside a reference are compared where both runs have them, at the same sizes
    and in the same precision; else plain times are, which hold on one kind of machine only. Neither is where
    the rules or the problem are known to differ: another clock shows another speedup of the same kernel.
    """
    has_one_clock = all(
        "" in pair or pair[0] == pair[1] for pair in ((a.profile, b.profile), (a.clock, b.clock))
    )
    has_one_reference = has_one_clock and (a.sizes, a.precision) == (b.sizes, b.precision)
    alike = Alike(references=has_one_reference, machines=has_one_reference and a.hardware == b.hardware)
    keys = a.samples.keys() | b.samples.keys()
    pairs = [_pair(key, a.samples.get(key), b.samples.get(key), alike) for key in keys]
    return EntryComparison(pairs=tuple(sorted(pairs, key=_by_change)), a=a, b=b)


def _by_change(pair: Pair) -> tuple[bool, bool, float, KernelKey]:
    change = abs(math.log(pair.ratio)) if pair.ratio else 0.0
    return not (pair.a and pair.b), _correct(pair.a) == _correct(pair.b), -change, pair.key


def _pair(key: KernelKey, a: KernelOutcome | None, b: KernelOutcome | None, alike: Alike) -> Pair:
    ratio, clear = None, False
    if a and b and _on_other_problems(a, b):
        return Pair(key=key, a=a, b=b, ratio=None, clear=False)
    if alike.references and a and b and a.speedup and b.speedup:
        ratio = b.speedup / a.speedup
        one, other = a.speedup_ci95, b.speedup_ci95
        clear = one is not None and other is not None and scores.intervals_apart(one, other) > 0
    elif alike.machines and a and b and a.runtime_ms and b.runtime_ms:
        ratio = a.runtime_ms / b.runtime_ms
    return Pair(key=key, a=a, b=b, ratio=ratio, clear=clear)


def _on_other_problems(a: KernelOutcome, b: KernelOutcome) -> bool:
    return bool(a.problem_sha256 and b.problem_sha256) and a.problem_sha256 != b.problem_sha256


def _correct(sample: KernelOutcome | None) -> bool:
    return sample is not None and sample.correct
