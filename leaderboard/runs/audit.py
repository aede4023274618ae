"""Runs recorded rows once more, in fresh processes and with new seeds, and says where they no longer hold.

Reads results; writes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from kernel_evaluator.problems.jobs import Engine, Job, Settings
from kernel_evaluator.problems.problem_set import Problem
from kernel_evaluator.records.keys import KernelKey
from kernel_evaluator.records.rows import ResultFile, Row, Status

from leaderboard.stages.agreement import difference
from leaderboard.stages.invariants import invariants
from leaderboard.stages.uses import judged


@dataclass(frozen=True, kw_only=True)
class JudgedAgain:
    """One row run again. `differs` says in what way; it is empty where both runs agree."""

    before: Row
    after: Row
    differs: str

    def to_json(self) -> dict[str, Any]:
        """Give the finding with the new row, which is the evidence."""
        return {
            "key": str(self.before.key),
            "differs": self.differs,
            "before": self.before.to_json(),
            "after": self.after.to_json(),
            "stands_on": {
                name: asdict(found) if (found := invariants(row)) else None
                for name, row in {"before": self.before, "after": self.after}.items()
            },
        }


def choose(result: ResultFile, top: int) -> list[KernelKey]:
    """Name the rows that most need a second look: all in quarantine, and the fastest `top` of the correct."""
    waiting = [row.key for row in result.rows if row.status is Status.QUARANTINED]
    timed = [row for row in result.rows if row.is_correct and row.speedup is not None]
    fastest = sorted(timed, key=lambda row: -(row.speedup or 0.0))[:top]
    return sorted({*waiting, *(row.key for row in fastest)})


def audit(
    result: ResultFile,
    jobs: Iterable[Job],
    engine: Engine,
    settings: Settings,
) -> Iterator[JudgedAgain]:
    """Judge kernels again and compare each with its recorded row; findings come as verdicts do."""
    recorded = {row.key: row for row in result.rows}
    for verdict in judged(engine, jobs, settings):
        before = recorded[verdict.row.key]
        yield JudgedAgain(before=before, after=verdict.row, differs=difference(before, verdict.row))


def jobs_for(
    keys: Collection[KernelKey],
    kernels: Mapping[KernelKey, str],
    problems: Mapping[tuple[int, int], Problem],
) -> list[Job]:
    """Make the jobs; raise ValueError that names the first kernel which the submission or the set lacks."""
    for key in sorted(keys):
        if key not in kernels:
            raise ValueError(f"the submission has no kernel {key}; name another with --submission")
        if (key.level, key.problem_id) not in problems:
            raise ValueError(f"the problem set has no problem {key.level}/{key.problem_id}")
    return [
        Job(key=key, source=kernels[key], problem=problems[(key.level, key.problem_id)])
        for key in sorted(keys)
    ]
