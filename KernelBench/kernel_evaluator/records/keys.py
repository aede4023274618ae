"""The names of kernels and the size of the benchmark. Owns the key format; knows nothing of files."""

from __future__ import annotations

import re
from dataclasses import dataclass

PROBLEM_COUNTS = {1: 100, 2: 100, 3: 50, 4: 20}
"""Problems per level: the fixed denominators of every rate."""

RANKED_LEVELS = (1, 2, 3)
"""The levels that a board ranks; level 4 is judged and shown, not ranked."""

MAX_SAMPLE = 99

_KEY = re.compile(r"level_([1-4])_problem_([1-9][0-9]{0,2})_sample_(0|[1-9][0-9]?)")


@dataclass(frozen=True, order=True)
class KernelKey:
    """Which kernel: level 1-4, problem 1-100/100/50/20, sample 0-99."""

    level: int
    problem_id: int
    sample: int = 0

    def __post_init__(self) -> None:
        count = PROBLEM_COUNTS.get(self.level)
        if count is None:
            raise ValueError(f"level must be one of {sorted(PROBLEM_COUNTS)}, got {self.level}")
        if not 1 <= self.problem_id <= count:
            raise ValueError(f"problem of level {self.level} must be 1-{count}, got {self.problem_id}")
        if not 0 <= self.sample <= MAX_SAMPLE:
            raise ValueError(f"sample must be 0-{MAX_SAMPLE}, got {self.sample}")

    def __str__(self) -> str:
        return f"level_{self.level}_problem_{self.problem_id}_sample_{self.sample}"

    @classmethod
    def parse(cls, text: str) -> KernelKey:
        """Read `level_1_problem_23_sample_0`; raise ValueError that names the rule otherwise."""
        match = _KEY.fullmatch(text)
        if match is None:
            raise ValueError(f"kernel key must look like level_1_problem_23_sample_0, got {text!r}")
        return cls(*(int(part) for part in match.groups()))
