"""The stage `record`: the only writer of `data/`. Believes nothing that it can work out itself.

Every check is one small function in `CHECKS`; all of them run, and all that is wrong is reported together.
Whether a kernel really took the time a row claims cannot be recomputed: that rests on who ran the engine.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from kernelbench.figures import gpu_model
from kernelbench.jobs import Job, Settings
from kernelbench.keys import KernelKey
from kernelbench.problems import Problem
from kernelbench.rows import ResultFile, Row, Status

from leaderboard import store
from leaderboard.plan import ProblemKey
from leaderboard.submission import Submission

RELATIVE_TOLERANCE = 0.1
"""How far the ratio of the medians may lie from the speedup, which is the median of paired ratios."""

MAX_PROBLEMS_SHOWN = 20

_SCHEMA = Path(__file__).parent / "schemas" / "result.schema.json"
_TIMED = (Status.CORRECT, Status.QUARANTINED)


class RefusedError(Exception):
    """A work file that must not enter `data/`; `problems` says everything that is wrong with it."""

    def __init__(self, path: Path, problems: list[str]) -> None:
        self.problems = problems
        more = len(problems) - MAX_PROBLEMS_SHOWN
        shown = problems[:MAX_PROBLEMS_SHOWN] + ([f"and {more} more"] if more > 0 else [])
        super().__init__(f"{path}: refused:" + "".join(f"\n  {problem}" for problem in shown))


@dataclass(frozen=True, kw_only=True)
class Case:
    """A work file together with what it must agree with."""

    result: ResultFile
    submission: Submission
    problems: Mapping[ProblemKey, Problem]


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """What recording did: where the result stands, and whether anything changed."""

    path: Path
    result: ResultFile
    changed: bool


def record(case: Case, work: Path, *, data: Path, reason: str = "") -> Recorded:
    """Check a work file and make it the entry's current revision; the one before stays in the history.

    Rows recorded earlier stay where the work file has no verdict and their kernel is still the submission's.
    A result equal to the recorded one changes nothing. Raises RefusedError, or StoreError while
    another process records.
    """
    problems = [problem for check in CHECKS for problem in check(case)]
    if problems:
        raise RefusedError(work, problems)
    path = store.recorded_path(data, case.result.board, case.result.entry)
    data.mkdir(parents=True, exist_ok=True)
    with store.locked_folder(data):
        before = store.read_result(path) if path.is_file() else None
        result = _canonical(case.result if before is None else _carry_over(case, before))
        if before is not None:
            if _content(result) == _content(before):
                return Recorded(path=path, result=before, changed=False)
            result = dataclasses.replace(
                result, revision=before.revision + 1, reason=reason or _reason(before, result)
            )
            old = store.history_path(data, before.board, before.entry, before.revision)
            store.write_atomically(old, path.read_text("utf-8"))
        elif reason:
            result = dataclasses.replace(result, reason=reason)
        store.write_atomically(path, store.dump_result(result))
        return Recorded(path=path, result=result, changed=True)


def read_work_file(path: Path) -> ResultFile:
    """Read a file of unknown origin: size, strict JSON, schema, then the record's own rules.

    Raises StoreError or RefusedError.
    """
    data = store.read_strictly(path)
    errors = sorted(_validator().iter_errors(data), key=lambda error: list(map(str, error.absolute_path)))
    if errors:
        raise RefusedError(path, [_describe(error.json_path, error.message) for error in errors])
    return store.parse_result(data, path)


@cache
def _validator() -> Draft202012Validator:
    return Draft202012Validator(json.loads(_SCHEMA.read_text("utf-8")))


def _describe(place: str, message: str) -> str:
    return f"{place}: {message if len(message) <= 300 else message[:297] + '…'}"


def identity_agrees(case: Case) -> Iterator[str]:
    """The file is about this submission, as its bytes are now, judged by the board's own rules."""
    result, submission = case.result, case.submission
    if result.entry != submission.entry:
        yield f"entry must be {submission.entry!r}, got {result.entry!r}"
    if result.submission_sha256 != submission.sha256:
        yield "submission_sha256 is not the submission's: the file changed since; evaluate it again"
    if result.profile != "ranked":
        yield f"profile must be ranked, got {result.profile!r}: other profiles are not recorded"
    if result.started_at > result.finished_at:
        yield f"finished_at must not be before started_at, got {result.finished_at}"


def environments_agree(case: Case) -> Iterator[str]:
    """Every environment is named by its digest, and is the GPU of the board."""
    gpu = case.result.gpu
    for name, environment in case.result.environments.items():
        if name != store.environment_name(environment):
            yield f"environment {name} does not have that digest"
        if environment.gpu != gpu:
            yield f"environment {name} must have gpu {gpu!r}, got {environment.gpu!r}"
        if not _is_model(environment.device, gpu):
            yield f"environment {name}: {environment.device!r} is not the board's {gpu}"


def rows_belong(case: Case) -> Iterator[str]:
    """Every row is about a kernel of the submission and a problem of the set, as they are now."""
    for row in case.result.rows:
        source = case.submission.kernels.get(row.key)
        problem = case.problems.get((row.key.level, row.key.problem_id))
        if source is None:
            yield f"{row.key}: the submission has no such kernel"
        elif problem is None:
            yield f"{row.key}: the problem set has no such problem"
        else:
            job = Job(key=row.key, source=source, problem=problem)
            if row.kernel_sha256 != job.kernel_sha256:
                yield f"{row.key}: kernel_sha256 is not the submission's kernel"
            if row.problem_sha256 != problem.sha256:
                yield f"{row.key}: problem_sha256 is not the problem's at {case.result.sizes} size"


def statuses_agree(case: Case) -> Iterator[str]:
    """A status and the fields beside it say the same."""
    for row in case.result.rows:
        if row.trials_passed > row.trials_asked:
            yield f"{row.key}: trials_passed must be at most {row.trials_asked}, got {row.trials_passed}"
        if row.status is Status.CORRECT:
            yield from _correct_row(row)
        elif row.status not in _TIMED and (row.runtime_ms or row.speedup_ci95):
            yield f"{row.key}: a {row.status} row must not carry times"


def _correct_row(row: Row) -> Iterator[str]:
    least = Settings().trials
    if row.trials_asked < least:
        yield f"{row.key}: correct needs at least {least} trials, got {row.trials_asked}"
    if row.trials_passed != row.trials_asked:
        yield f"{row.key}: correct needs every trial passed, got {row.trials_passed} of {row.trials_asked}"
    if row.worst_error is not None and row.worst_error > 1:
        yield f"{row.key}: correct needs worst_error at most 1, got {row.worst_error}"
    if row.speedup is None:
        yield f"{row.key}: a correct row of the board must carry a speedup"


def speedups_agree(case: Case) -> Iterator[str]:
    """A speedup lies in its interval and near the ratio of the medians; timings are in order."""
    for row in case.result.rows:
        if row.speedup is None or not (row.runtime_ms and row.reference_ms and row.speedup_ci95):
            continue
        for name, times in (("runtime_ms", row.runtime_ms), ("reference_ms", row.reference_ms)):
            if not times.min <= times.median <= times.max or not times.min <= times.mean <= times.max:
                yield f"{row.key}: {name} must have min <= median, mean <= max"
        low, high = row.speedup_ci95
        if not low <= row.speedup <= high:
            yield f"{row.key}: speedup {row.speedup:.4g} must lie in its interval {low:.4g}-{high:.4g}"
        ratio = row.reference_ms.median / row.runtime_ms.median
        # The median of ratios and the ratio of medians part as far as the rounds scatter.
        scatter = sum(times.std / times.median for times in (row.runtime_ms, row.reference_ms))
        near = abs(ratio / row.speedup - 1) <= max(RELATIVE_TOLERANCE, 2 * scatter)
        if not (near or low <= ratio <= high):
            yield f"{row.key}: speedup {row.speedup:.4g} disagrees with its times, whose ratio is {ratio:.4g}"


def totals_agree(case: Case) -> Iterator[str]:
    """The seconds spent are the sums of the rows'."""
    for name in ("gpu_seconds", "cpu_seconds"):
        total = sum(getattr(row, name) for row in case.result.rows)
        claimed = getattr(case.result, name)
        if abs(total - claimed) > 1e-6 * max(1.0, total):
            yield f"{name} must be the rows' sum {total:.6g}, got {claimed:.6g}"


CHECKS: tuple[Callable[[Case], Iterator[str]], ...] = (
    identity_agrees,
    environments_agree,
    rows_belong,
    statuses_agree,
    speedups_agree,
    totals_agree,
)
"""Everything a work file must satisfy before it enters `data/`."""


def _is_model(device: str, gpu: str) -> bool:
    """An H100 board takes the H100 whose figures it shows, not a slower variant or a free upgrade."""
    return gpu == "CPU" or gpu_model(device) == gpu


def _carry_over(case: Case, before: ResultFile) -> ResultFile:
    """Keep recorded rows that the work file has no verdict for and that still belong to the submission."""
    rows = {row.key: row for row in case.result.rows}
    judged = {key for key, row in rows.items() if row.status is not Status.INFRA_ERROR}
    candidates = dataclasses.replace(before, rows=tuple(row for row in before.rows if row.key not in judged))
    kept = [row for row in candidates.rows if not any(rows_belong(_only(case, candidates, row)))]
    rows.update({row.key: row for row in kept})
    environments = {**before.environments, **case.result.environments}
    return _with_rows(case.result, rows, environments)


def _only(case: Case, result: ResultFile, row: Row) -> Case:
    return dataclasses.replace(case, result=dataclasses.replace(result, rows=(row,)))


def _with_rows(
    result: ResultFile, rows: Mapping[KernelKey, Row], environments: Mapping[str, Any]
) -> ResultFile:
    ordered = tuple(rows[key] for key in sorted(rows))
    return dataclasses.replace(
        result,
        rows=ordered,
        environments={row.environment: environments[row.environment] for row in ordered},
        gpu_seconds=sum(row.gpu_seconds for row in ordered),
        cpu_seconds=sum(row.cpu_seconds for row in ordered),
    )


def _canonical(result: ResultFile) -> ResultFile:
    """A new file starts at revision 1, whatever the work file says."""
    return dataclasses.replace(result, revision=1, reason="first evaluation")


def _content(result: ResultFile) -> dict[str, Any]:
    """What makes a revision: everything but when the run was started and what it was called."""
    values = json.loads(store.dump_result(result))
    return {name: value for name, value in values.items() if name not in _NOT_CONTENT}


_NOT_CONTENT = ("revision", "reason", "started_at", "finished_at")


def _reason(before: ResultFile, after: ResultFile) -> str:
    """Say why there is a new revision, where nobody said it."""
    if before.submission_sha256 != after.submission_sha256:
        return "the submission changed"
    if {row.evaluator_sha256 for row in before.rows} != {row.evaluator_sha256 for row in after.rows}:
        return "another version of the evaluator"
    if len(before.rows) < len(after.rows):
        return "more kernels evaluated"
    if any(row.status is Status.INFRA_ERROR for row in before.rows):
        return "infrastructure errors tried again"
    return "measured again"
