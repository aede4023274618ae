"""The stage `record`: the only writer of results in `data/`. Believes nothing that it can work out itself.

Every check is one small function in `CHECKS`; all of them run, and all that is wrong is reported together.
Figures are worked out again from a row's rounds. Whether the rounds took place rests on who ran the engine.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from kernel_evaluator.machine.figures import gpu_model
from kernel_evaluator.problems.jobs import Job, Settings
from kernel_evaluator.problems.problem_set import Problem, ProblemSet
from kernel_evaluator.records.rows import ResultFile, Row, Status
from kernel_evaluator.records.version import evaluator_sha256

from leaderboard.files import ledger, store
from leaderboard.files.baseline_files import usual_reference_ms
from leaderboard.files.ledger import Spending
from leaderboard.files.submission import Submission
from leaderboard.files.workfile import with_rows
from leaderboard.resources import SCHEMAS
from leaderboard.stages.believed import CLOCKS_APART_S, doubts
from leaderboard.stages.evaluate import load_problems
from leaderboard.stages.parts import fresh, wrong_totals
from leaderboard.stages.plan import ProblemKey
from leaderboard.texts.lists import first_lines

FIRST_DAY = "2026-01-01T00:00:00Z"
"""No row is older: that is when this evaluator began."""

MAX_PROBLEMS_SHOWN, MAX_PROBLEMS_FOUND = 20, 1000
"""The latter: of what the schema refuses. To tell all of a file of nothing else would take any memory."""

_SCHEMA = SCHEMAS / "result.schema.json"
_TIMED = (Status.CORRECT, Status.QUARANTINED)


class RefusedError(Exception):
    """Work files that must not enter `data/`; `problems` says everything that is wrong with them."""

    def __init__(self, problems: list[str], *paths: Path) -> None:
        self.problems = problems
        files, shown = ", ".join(map(str, paths)), first_lines(problems, MAX_PROBLEMS_SHOWN)
        super().__init__(f"{files}: refused:" + "".join(f"\n  {problem}" for problem in shown))


@dataclass(frozen=True, kw_only=True)
class Case:
    """A work file together with what it must agree with.

    `evaluators`: the digests of those whose rows may be published. `usual_ms`: what the reference takes,
    where baselines were measured here. `before`: the entry's recorded result, if any.
    """

    result: ResultFile
    submission: Submission
    problems: Mapping[ProblemKey, Problem]
    evaluators: Collection[str] = field(default_factory=lambda: (evaluator_sha256(),))
    usual_ms: Mapping[ProblemKey, float] = field(default_factory=dict)
    before: ResultFile | None = None

    def new_rows(self) -> Iterator[Row]:
        """The rows that are not on record already, just as they are."""
        return iter(fresh(self.result, self.before.rows if self.before else ()).values())


def case_of(result: ResultFile, submission: Submission, problem_set: ProblemSet, baselines: Path) -> Case:
    """Put beside a work file what it must agree with; raise ValueError where a problem cannot be judged."""
    return Case(
        result=result,
        submission=submission,
        problems=load_problems(problem_set, submission.kernels, result.sizes),
        usual_ms=usual_reference_ms(baselines, result.board) if result.sizes == "full" else {},
    )


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """What recording did: where the result stands, and whether anything changed."""

    path: Path
    result: ResultFile
    changed: bool


def record(case: Case, *work: Path, data: Path, reason: str = "") -> Recorded:
    """Check what came from `work` and make it the entry's current revision.

    The revision before stays in the history.
    Rows recorded earlier stay where the work file has no verdict and their kernel is still the submission's.
    A result equal to the recorded one changes nothing. Raises RefusedError, or StoreError while
    another process records.
    """
    path = store.recorded_path(data, case.result.board, case.result.entry)
    with store.locked_folder(data):
        before = store.read_result(path) if path.is_file() else None
        case = dataclasses.replace(case, before=before)
        problems = [problem for check in CHECKS for problem in check(case)]
        if problems:
            raise RefusedError(problems, *work)
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


def record_spending(data: Path, item: Spending) -> None:
    """Note what an evaluation cost; what is published again replaces what was noted, on its day."""
    with store.locked_folder(data):
        noted = [other.day for other in ledger.read_all(data) if other.evaluation == item.evaluation]
        item = dataclasses.replace(item, day=min(noted, default=item.day))
        known = ledger.read_month(data, item.month)
        others = [other for other in known if other.evaluation != item.evaluation]
        ledger.write_month(data, item.month, (*others, item))


def read_work_file(path: Path) -> ResultFile:
    """Read a file of unknown origin: size, strict JSON, schema, then the record's own rules.

    Raises StoreError or RefusedError.
    """
    data = store.read_strictly(path)
    first = islice(_validator().iter_errors(data), MAX_PROBLEMS_FOUND)
    errors = sorted(first, key=lambda error: list(map(str, error.absolute_path)))
    if errors:
        raise RefusedError([_describe(error.json_path, error.message) for error in errors], path)
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
        yield (
            f"finished_at must not be before started_at, got {result.finished_at}: the clock was set back; "
            "the same kbl evaluate again mends the file"
        )


def precision_is_the_entrys(case: Case) -> Iterator[str]:
    """An entry's rows are on the board of its own precision."""
    wanted, found = case.submission.precision, case.result.precision
    if found != wanted:
        yield f"precision must be {wanted}, as metadata.precision of the submission says, got {found}"


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
    # It counts inputs of other shapes too, on which no verdict hangs.
    is_wrong_there = any(said.startswith("wrong") for said in (row.elsewhere or {}).values())
    if row.worst_error is not None and row.worst_error > 1 and not is_wrong_there:
        yield f"{row.key}: correct needs worst_error at most 1, got {row.worst_error}"
    if row.speedup is None:
        yield f"{row.key}: a correct row of the board must carry a speedup"


def times_are_plausible(case: Case) -> Iterator[str]:
    """Nothing was judged before there was this evaluator, nor in time to come."""
    result = case.result
    now = datetime.now(UTC)
    for name, text in (("started_at", result.started_at), ("finished_at", result.finished_at)):
        yield from _odd_time(name, text, now)
    for row in case.new_rows():
        if row.finished_at:
            yield from _odd_time(f"{row.key}: finished_at", row.finished_at, now)
        if row.second is not None:
            yield from _odd_time(f"{row.key}: second.finished_at", row.second["finished_at"], now)


def _odd_time(name: str, text: str, now: datetime) -> Iterator[str]:
    at = datetime.fromisoformat(text)
    if at < datetime.fromisoformat(FIRST_DAY):
        yield (
            f"{name} must not be before {FIRST_DAY}, got {text}: set the clock of that machine, and run kbl "
            "evaluate --again"
        )
    elif at > now + timedelta(seconds=CLOCKS_APART_S):
        yield f"{name} lies ahead, got {text}: set the clock of that machine, and run kbl evaluate --again"


def evaluators_are_known(case: Case) -> Iterator[str]:
    """A new row comes from an evaluator whose rows may be published."""
    for row in case.new_rows():
        if row.evaluator_sha256 not in case.evaluators:
            yield (
                f"{row.key}: evaluator_sha256 {row.evaluator_sha256[:12]}… is not of an evaluator whose rows "
                "are taken here: evaluate again with this one"
            )


def figures_follow(case: Case) -> Iterator[str]:
    """What a correct row says of time follows from its rounds, and is what an honest row may say."""
    for row in case.new_rows():
        usual_ms = case.usual_ms.get((row.key.level, row.key.problem_id))
        for doubt in doubts(row, case.result, usual_ms):
            yield f"{row.key}: {doubt}"


def totals_agree(case: Case) -> Iterator[str]:
    """The seconds spent are the sums of the rows'."""
    yield from wrong_totals(case.result)


CHECKS: tuple[Callable[[Case], Iterator[str]], ...] = (
    identity_agrees,
    precision_is_the_entrys,
    environments_agree,
    rows_belong,
    statuses_agree,
    times_are_plausible,
    evaluators_are_known,
    figures_follow,
    totals_agree,
)
"""Everything a work file must satisfy before it enters `data/`."""


def _is_model(device: str, gpu: str) -> bool:
    """An H100 board takes the H100 whose figures it shows, not a slower variant or a free upgrade."""
    return gpu == "CPU" or gpu_model(device) == gpu


def _carry_over(case: Case, before: ResultFile) -> ResultFile:
    """Keep recorded rows that the work file has no verdict for and that still belong to the submission.

    No verdict outlives its evaluator: where another one tried and failed, that failure stands. Nor does one
    come back: a work file that is recorded late, or twice, changes nothing that was judged after it.
    """
    rows = {row.key: row for row in case.result.rows}
    known = {row.key: row for row in before.rows}
    judged = {key for key, row in rows.items() if key not in known or _replaces(row, known[key])}
    candidates = dataclasses.replace(before, rows=tuple(row for row in before.rows if row.key not in judged))
    kept = [row for row in candidates.rows if not any(rows_belong(_only(case, candidates, row)))]
    rows.update({row.key: row for row in kept})
    environments = {**before.environments, **case.result.environments}
    return with_rows(case.result, rows, environments)


def _replaces(row: Row, known: Row) -> bool:
    if row.evaluator_sha256 == known.evaluator_sha256 and Status.INFRA_ERROR in (row.status, known.status):
        return row.status is not Status.INFRA_ERROR
    return row.kernel_sha256 != known.kernel_sha256 or _finished(row) >= _finished(known)


def _finished(row: Row) -> datetime:
    """When the last was said of a kernel: by its second evaluation, if it had one."""
    return datetime.fromisoformat((row.second or {}).get("finished_at") or row.finished_at or FIRST_DAY)


def _only(case: Case, result: ResultFile, row: Row) -> Case:
    return dataclasses.replace(case, result=dataclasses.replace(result, rows=(row,)))


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
