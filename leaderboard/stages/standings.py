"""The records that `aggregate` makes and that tables, pages and comments show. No computing here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from kernel_evaluator.records.rows import ResultFile

from leaderboard.stages.speedups import Speedups

Kind = Literal["entry", "baseline"]

THRESHOLDS = (1.0, 1.5, 2.0)
"""The p of the fast@p columns."""


Reference = Literal["eager", "compile", "best"]

REFERENCES: Mapping[Reference, str] = {
    "eager": "eager PyTorch",
    "compile": "the better of eager PyTorch and torch.compile",
    "best": "the best of PyTorch",
}
"""What speedups can be held against, in words. Ranks are by the first; the others are baselines' own rows."""


@dataclass(frozen=True, kw_only=True)
class Against:
    """Scores against one of REFERENCES, over the ranked problems of one level or of all.

    A problem's speedup is that over eager PyTorch divided by the reference's own, which is 1 where it is no
    faster. `ci95` is the interval of `deployed_speedup`; levels have none.
    """

    deployed_speedup: float
    geomean_speedup: float | None
    fast: Mapping[float, float]
    ci95: tuple[float, float] | None = None


@dataclass(frozen=True, kw_only=True)
class Scores:
    """Scores over one level, or over all ranked levels. `problems` is the denominator of every rate: those
    that can be judged, the same for every entry of a board.

    They are those of sample 0; `pass_at_k` alone is over all samples.

    `geomean_speedup` is over the `geomean_n` correct kernels (None where there are none);
    `deployed_speedup` over the `ranked_problems`, of max(1, speedup) where correct and 1 elsewhere.
    `general` of the `tried_elsewhere` correct kernels hold on other shapes and strides.
    `fast` maps p to the share of all problems correct with speedup >= p (fast@p);
    `straddling` maps p to how many correct kernels have p inside their published interval.
    `light_share` is the median over the correct kernels of the share of light speed that they reach; None
    where no roofline is known.
    """

    problems: int
    ranked_problems: int
    submitted: int
    compiled: int
    correct: int
    geomean_speedup: float | None
    geomean_n: int
    deployed_speedup: float
    fast: Mapping[float, float]
    straddling: Mapping[float, int]
    correct_rate: float
    compile_rate: float
    general: int
    tried_elsewhere: int
    pass_at_k: Mapping[int, float]
    speedup_percentiles: Mapping[int, float]
    light_share: float | None = None


@dataclass(frozen=True, kw_only=True)
class Standing:
    """One entry's line on a board. `rank` is shared by entries that cannot be told apart.

    `unranked_because` says why there is no rank: a baseline, another profile, no kernel on a problem that
    ranks, or an incomplete evaluation. `failures` counts the kernels of sample 0 of problems that rank by
    status, with `missing` for those without. `result` holds the rows that count. `against` holds scores
    against other references than eager PyTorch, over all ranked levels, and `levels_against` those of each
    level.
    """

    entry: str
    display_name: str
    organization: str
    kind: Kind
    rank: int | None
    unranked_because: str
    overall: Scores
    levels: Mapping[int, Scores]
    deployed_ci95: tuple[float, float]
    failures: Mapping[str, int]
    metadata: Mapping[str, Any]
    result: ResultFile = field(repr=False)
    against: Mapping[Reference, Against] = field(default_factory=dict)
    levels_against: Mapping[Reference, Mapping[int, Against]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Board:
    """The standings on one GPU model in one precision (and size class), best first, unranked last."""

    name: str
    gpu: str
    sizes: str
    precision: str
    standings: tuple[Standing, ...]
    unranked_problems: Mapping[str, str] = field(default_factory=dict)
    """Problems that cannot be judged: `"1_23"` to the evidence in one sentence."""
    speedups: Mapping[str, Speedups] = field(default_factory=dict, repr=False)
    """Every entry's speedups over eager PyTorch, for scores over other sets of problems."""
    references: Mapping[Reference, Mapping[str, float]] = field(default_factory=dict)
    """How much faster than eager PyTorch each other reference is: to `"1_23"`, to a factor of at least 1."""
