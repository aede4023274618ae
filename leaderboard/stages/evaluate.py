"""The stage `evaluate`: runs what is left of a submission on an engine and keeps the work file complete.

Never writes `data/`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from kernel_evaluator.problems.jobs import Engine, Job, Settings, Verdict
from kernel_evaluator.problems.problem_set import Problem, ProblemSet
from kernel_evaluator.records.keys import KernelKey
from kernel_evaluator.records.places import PROBLEM_SET
from kernel_evaluator.records.rows import BOARD_PRECISIONS, Environment, ResultFile, Row, Sizes, Status
from kernel_evaluator.records.version import EVALUATOR_VERSION, evaluator_sha256
from kernel_evaluator.secret_draws import in_any_order

from leaderboard.files import store
from leaderboard.files.submission import Submission
from leaderboard.files.workfile import WorkFile, utc_now
from leaderboard.stages.checked import checked_problem, reductions
from leaderboard.stages.confirm import confirmed, needs_second, second_settings
from leaderboard.stages.engines import EvaluationError
from leaderboard.stages.plan import Plan, ProblemKey, Selection, make_plan
from leaderboard.stages.uses import judged

WORK_ROOT = Path("build/evaluations")


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What is asked for one submission, the same for every run that continues it.

    `confirms`: a speedup that counts is looked for a second time, as the board wants it.
    """

    submission: Submission
    problems: Mapping[ProblemKey, Problem]
    settings: Settings
    gpu: str
    selection: Selection = field(default_factory=Selection)
    again: bool = False
    confirms: bool = True
    recorded: Path | None = None
    work_root: Path = WORK_ROOT

    @property
    def path(self) -> Path:
        """The work file. What is judged by other rules or on other problems than the board's is apart."""
        blank = self.blank
        folders = {each.path.parent for each in self.problems.values() if each.path is not None}
        own = [] if all(map(is_the_boards, folders)) else ["own-problems"]
        board = "-".join([blank.board, *own, *departures(self.settings)])
        return store.result_path(self.work_root, board, blank.entry)

    @property
    def blank(self) -> ResultFile:
        """The result file before its first row."""
        now = utc_now()
        return ResultFile(
            entry=self.submission.entry,
            submission_sha256=self.submission.sha256,
            gpu=self.gpu,
            sizes=self.settings.sizes,
            precision=self.settings.precision,
            profile=self.settings.profile,
            evaluator_version=EVALUATOR_VERSION,
            started_at=now,
            finished_at=now,
            environments={},
            rows=(),
        )

    def previous(self) -> list[ResultFile]:
        """Read what earlier runs left: the work file first, then the recorded result."""
        paths = [self.path]
        if self.recorded is not None and not departures(self.settings):
            paths.append(store.recorded_path(self.recorded, self.blank.board, self.blank.entry))
        return [store.read_result(path) for path in paths if path.is_file()]

    def plan(self, previous: Sequence[ResultFile]) -> Plan:
        """Say what is left to do after these earlier results."""
        return make_plan(
            self.submission.kernels,
            self.problems,
            previous=previous,
            gpu=self.gpu,
            evaluator_sha256=evaluator_sha256(),
            selection=self.selection,
            again=self.again,
            confirms=self._confirms,
        )

    def unconfirmed(self, plan: Plan, added: Mapping[KernelKey, Row]) -> list[Job]:
        """What is left to be judged a second time, in an order that nobody knows."""
        fresh = [job for job in plan.jobs if job.key in added and needs_second(added[job.key])]
        return in_any_order([*fresh, *plan.unconfirmed]) if self._confirms else []

    @property
    def _confirms(self) -> bool:
        return self.confirms and self.settings.measure and self.settings.profile == "ranked"


def departures(settings: Settings) -> list[str]:
    """Name what these settings change of the board's rules: rows do not say by which they were judged."""
    board = Settings()
    named = {
        settings.precision: settings.precision not in BOARD_PRECISIONS,
        settings.profile: settings.profile != board.profile,
        f"{settings.trials}-trials": settings.trials != board.trials,
        "untimed": not settings.measure,
        settings.timing_method: settings.profile == "compat"
        and settings.timing_method != board.timing_method,
    }
    return [name for name, departs in named.items() if departs]


def is_the_boards(folder: Path) -> bool:
    """Whether problems that lie in a folder are the board's."""
    return folder.resolve().is_relative_to(PROBLEM_SET.resolve())


@dataclass(frozen=True, kw_only=True)
class EvaluationOutcome:
    """How a run ended: the plan it carried out, the rows it added, and the file that holds everything.

    `found_once` names kernels that were to be judged a second time, and were not.
    """

    plan: Plan
    added: tuple[Row, ...]
    found_once: tuple[KernelKey, ...]
    result: ResultFile
    path: Path

    @property
    def judged(self) -> int:
        """How many kernels were judged for the first time."""
        return len({job.key for job in self.plan.jobs} & {row.key for row in self.added})

    @property
    def unfinished(self) -> tuple[KernelKey, ...]:
        """Kernels of the plan for which the engine gave no verdict, or not the second one."""
        done = {row.key for row in self.added}
        return (*(job.key for job in self.plan.jobs if job.key not in done), *self.found_once)

    @property
    def waiting(self) -> list[KernelKey]:
        """Kernels that another run has to judge: without a verdict, or with one that is nobody's fault."""
        lost = {row.key for row in self.added if row.status is Status.INFRA_ERROR}
        return sorted({*self.unfinished, *lost})


def evaluate(evaluation: Evaluation, engine: Engine, on_row: Callable[[Row], None]) -> EvaluationOutcome:
    """Judge what is left, writing the work file after each verdict; continue where an earlier run stopped.

    What counts is judged a second time when all the rest is done; `on_row` hears of it again then, and why
    where nothing was found.
    Raises StoreError while another process evaluates the same entry, EvaluationError where the engine
    runs on another GPU model than the board's.
    """
    with store.locked(evaluation.path):
        previous = evaluation.previous()
        plan = evaluation.plan(previous)
        work = WorkFile(evaluation.path, evaluation.blank)
        work.keep(plan.kept, previous)
        added: dict[KernelKey, Row] = {}

        def add(verdict: Verdict) -> Row:
            added[verdict.row.key] = work.add(verdict)
            return added[verdict.row.key]

        with work:
            # Closing ends the engine's processes at once where the loop is left early.
            with closing(_verdicts(evaluation, engine, plan.jobs, evaluation.settings)) as verdicts:
                for verdict in verdicts:
                    on_row(add(verdict))
            again = evaluation.unconfirmed(plan, added)
            settings = second_settings(evaluation.settings)
            with closing(_verdicts(evaluation, engine, again, settings)) as verdicts:
                for verdict in verdicts:
                    row = add(_of_both(work.verdict(verdict.row.key), verdict))
                    on_row(verdict.row if verdict.row.status is Status.INFRA_ERROR else row)
            found_once = [job.key for job in again if needs_second(work.verdict(job.key).row)]
        return EvaluationOutcome(
            plan=plan,
            added=tuple(added.values()),
            found_once=tuple(found_once),
            result=work.result(),
            path=work.path,
        )


def _of_both(first: Verdict, second: Verdict) -> Verdict:
    row = confirmed(first.row, second.row)
    return Verdict(row=row, environment=first.environment if row.is_correct else second.environment)


def _verdicts(
    evaluation: Evaluation, engine: Engine, jobs: Sequence[Job], settings: Settings
) -> Generator[Verdict]:
    asked = {job.key for job in jobs}
    for verdict in judged(engine, jobs, settings):
        if verdict.row.key not in asked:
            raise EvaluationError(f"the engine judged {verdict.row.key}, which was not asked for")
        if verdict.environment == Environment(device="", gpu=""):
            # What does not compile needs no device; its row belongs to the board all the same.
            board_only = Environment(device=evaluation.gpu, gpu=evaluation.gpu)
            verdict = replace(verdict, environment=board_only)  # noqa: PLW2901
        if verdict.environment.gpu != evaluation.gpu:
            raise EvaluationError(
                f"{verdict.row.key} ran on {verdict.environment.gpu!r}, this evaluation is for "
                f"{evaluation.gpu!r}; name the device with --device or --gpus"
            )
        yield verdict


def load_problems(
    problem_set: ProblemSet, kernels: Iterable[KernelKey], sizes: Sizes
) -> dict[ProblemKey, Problem]:
    """Read the problems that the kernels name, at the size asked for; those the set lacks are left out.

    Raises ValueError where one cannot be judged.
    """
    table = reductions(sizes)
    wanted = sorted({(key.level, key.problem_id) for key in kernels})
    known = {(level, i) for level in {level for level, _ in wanted} for i in problem_set.ids(level)}
    return {key: checked_problem(problem_set.load(*key)).reduced(table) for key in wanted if key in known}
