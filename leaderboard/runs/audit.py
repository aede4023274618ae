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
from kernel_evaluator.scores import intervals_apart, published_interval

from leaderboard.stages.invariants import invariants

EQUIVALENT = 0.15
"""Two rows agree where their ratio is this near to one beyond doubt, by published intervals."""


@dataclass(frozen=True, kw_only=True)
class Finding:
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
) -> Iterator[Finding]:
    """Judge kernels again and compare each with its recorded row; findings come as verdicts do."""
    recorded = {row.key: row for row in result.rows}
    for verdict in engine.run(list(jobs), settings):
        before = recorded[verdict.row.key]
        yield Finding(before=before, after=verdict.row, differs=difference(before, verdict.row))


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


def difference(before: Row, after: Row) -> str:
    """Say in what way two rows of one kernel disagree; empty where they do not."""
    if before.kernel_sha256 != after.kernel_sha256:
        return "the submission's source is not the one that was judged"
    if before.problem_sha256 != after.problem_sha256:
        return "the problem is not the one that was judged"
    if before.is_correct != after.is_correct:
        return f"was {before.status}, is {after.status}"
    return _other_speed(before, after) if before.is_correct else ""


def _other_speed(before: Row, after: Row) -> str:
    """Agreement is shown, not presumed: wide intervals meet whatever is true, and so agree with nothing."""
    one, other = published_interval(before.speedup_ci95), published_interval(after.speedup_ci95)
    if not (one and other):
        return ""
    least, most = other[0] / one[1], other[1] / one[0]
    if 1 / (1 + EQUIVALENT) <= least and most <= 1 + EQUIVALENT:
        return ""
    said = f"speedup was {before.speedup:.3f} ({one[0]:.3g}-{one[1]:.3g}), is {after.speedup:.3f}"
    if intervals_apart(one, other) > 0:
        return said
    return f"{said} ({other[0]:.3g}-{other[1]:.3g}): too wide to agree within {EQUIVALENT:.0%}"
