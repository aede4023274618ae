"""One entry's speedups over the problems that count, as arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from kernel_evaluator import scores


@dataclass(frozen=True, eq=False)
class Speedups:
    """Logarithms of one entry's speedups over eager PyTorch; NaN where no kernel of a problem is correct."""

    problems: tuple[str, ...]
    logs: scores.Gains

    @classmethod
    def of(cls, problems: Sequence[str], speedups: Iterable[float | None]) -> Speedups:
        """Take speedups in the order of the problems."""
        known = [np.nan if value is None else value for value in speedups]
        return cls(tuple(problems), np.log(np.array(known, dtype=np.float64)))

    @property
    def gains(self) -> scores.Gains:
        """What a user gains a problem: never negative, 0 where PyTorch stays."""
        return np.fmax(self.logs, 0.0)
