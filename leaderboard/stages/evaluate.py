"""The stage `evaluate`: runs what is left of a submission on an engine and keeps the work file complete.

Owns the table of engines, the one place where they are told apart. Never writes `data/`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

from kernel_evaluator.labels.sources import Backend
from kernel_evaluator.machine.devices import visible_devices
from kernel_evaluator.machine.extras import require
from kernel_evaluator.machine.figures import gpu_model
from kernel_evaluator.problems.jobs import Engine, Job, Progress, Settings, Verdict
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
from leaderboard.stages.plan import Plan, ProblemKey, Selection, make_plan
from leaderboard.stages.uses import backends_of, too_deep

WORK_ROOT = Path("build/evaluations")


class EvaluationError(Exception):
    """The evaluation cannot go on. The message says why and what to do."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where an evaluation runs: the engine, and the GPU model that its rows must name."""

    engine: Engine
    gpu: str


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
class Outcome:
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


def evaluate(evaluation: Evaluation, engine: Engine, on_row: Callable[[Row], None]) -> Outcome:
    """Judge what is left, writing the work file after each verdict; continue where an earlier run stopped.

    What counts is judged a second time when all the rest is done; `on_row` hears of it again then.
    Raises StoreError while another process evaluates the same entry, EvaluationError where the engine
    runs on another GPU model than the board's.
    """
    with store.locked(evaluation.path):
        previous = evaluation.previous()
        plan = evaluation.plan(previous)
        work = WorkFile(evaluation.path, evaluation.blank)
        work.keep(plan.kept, previous)
        added: dict[KernelKey, Row] = {}

        def add(verdict: Verdict) -> None:
            added[verdict.row.key] = work.add(verdict)
            on_row(added[verdict.row.key])

        with work:
            # Closing ends the engine's processes at once where the loop is left early.
            with closing(_verdicts(evaluation, engine, plan.jobs, evaluation.settings)) as verdicts:
                for verdict in verdicts:
                    add(verdict)
            again = evaluation.unconfirmed(plan, added)
            settings = second_settings(evaluation.settings)
            with closing(_verdicts(evaluation, engine, again, settings)) as verdicts:
                for verdict in verdicts:
                    add(_of_both(work.verdict(verdict.row.key), verdict))
            found_once = [job.key for job in again if needs_second(work.verdict(job.key).row)]
        return Outcome(
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
    failed = {job.key: verdict for job in jobs if (verdict := too_deep(job))}
    left = [job for job in jobs if job.key not in failed]
    asked = {job.key for job in jobs}
    for verdict in chain(failed.values(), engine.run(left, settings) if left else ()):
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


def visible_gpus(indices: Sequence[int] | None = None) -> list[str]:
    """Name the GPUs that this process may use (those of `indices`), creating no context; [] for none."""
    names = list(visible_devices().values())
    if indices is None:
        return names
    if not set(indices) <= set(range(len(names))):
        raise EvaluationError(f"--gpus must be indices below {len(names)}, got {sorted(indices)}")
    return [names[index] for index in indices]


def gpu_of(device: str, gpus: Sequence[int] | None = None) -> str:
    """Name the board that the devices of this machine judge for: of one model, since a board has one.

    Raises EvaluationError where there is none, or where there are several.
    """
    models = {gpu_model(name) for name in visible_gpus(gpus)} if device == "cuda" else {"CPU"}
    if not models:
        raise EvaluationError("no GPU found; choose --device cpu")
    if len(models) > 1:
        raise EvaluationError(f"one GPU model is needed, found {sorted(models)}; choose with --gpus")
    return models.pop()


def chosen_device(device: str, engine: str = "local", gpus: Sequence[int] | None = None) -> str:
    """Settle on `cuda` or `cpu` where `auto` is given: a GPU where there is one, or where one is meant."""
    if device not in ("auto", "cuda", "cpu"):
        raise EvaluationError(f"--device must be auto, cuda or cpu, got {device!r}")
    if gpus and device == "cpu":
        indices = ",".join(map(str, gpus))
        raise EvaluationError(f"--gpus {indices} and --device cpu exclude each other: leave one out")
    if device != "auto":
        return device
    return "cuda" if gpus or engine != "local" or visible_gpus() else "cpu"


def made_for_gpus(sources: Iterable[str]) -> Counter[str]:
    """Count the kernels that no CPU can run, as far as their sources tell, by what they are written in."""
    return Counter(backend for backend in map(_gpu_backend, sources) if backend)


def _gpu_backend(source: str) -> str:
    for backend in backends_of(source):
        is_cpp = backend in (Backend.LOAD_INLINE, Backend.LOAD) and "__global__" not in source
        if backend is not Backend.TORCH and not is_cpp:
            return backend.value
    return ""


def _local(device: str, gpus: Sequence[int] | None, progress: Progress | None, _: float | None) -> Place:
    require("evaluate", "the engine local")
    from kernel_evaluator.engines.local import LocalEngine

    return Place(engine=LocalEngine(gpus=gpus, progress=progress), gpu=gpu_of(device, gpus))


def _modal(
    device: str, gpus: Sequence[int] | None, progress: Progress | None, max_usd: float | None
) -> Place:
    require("modal", "the engine modal")
    from kernel_evaluator.engines.epoch import MAX_USD
    from kernel_evaluator.engines.modal import ModalEngine
    from modal.config import config

    if not (config.get("token_id") and config.get("token_secret")):
        raise EvaluationError(
            "modal has no token; run: modal token new, or set MODAL_TOKEN_ID and MODAL_TOKEN_SECRET"
        )
    if device != "cuda" or gpus is not None:
        raise EvaluationError("the engine modal chooses its own GPUs; leave --device and --gpus out")
    cap = MAX_USD if max_usd is None else max_usd
    return Place(engine=ModalEngine(progress=progress, max_usd=cap), gpu="H100")


def _ray(device: str, gpus: Sequence[int] | None, progress: Progress | None, _: float | None) -> Place:
    require("ray", "the engine ray")
    from kernel_evaluator.engines.ray.engine import ClusterError, open_engine

    if gpus is not None:
        raise EvaluationError("the engine ray finds the cluster's GPUs; leave --gpus out (docs/cluster.md)")
    try:
        engine, gpu = open_engine(device, progress)
    except ClusterError as error:
        raise EvaluationError(str(error)) from error
    return Place(engine=_Excused(engine, ClusterError), gpu=gpu)


@dataclass(frozen=True)
class _Excused:
    """An engine whose own excuse for not going on is an EvaluationError, at whatever verdict it comes."""

    engine: Engine
    excuse: type[Exception]

    def run(self, jobs: Sequence[Job], settings: Settings) -> Iterator[Verdict]:
        try:
            yield from self.engine.run(jobs, settings)
        except self.excuse as error:
            raise EvaluationError(str(error)) from error


ENGINES: dict[str, Callable[[str, Sequence[int] | None, Progress | None, float | None], Place]] = {
    "local": _local,
    "modal": _modal,
    "ray": _ray,
}
"""The engines by name: each takes a device (`cuda` or `cpu`), GPU indices, a callback, a cap in dollars."""


def open_place(
    name: str,
    device: str,
    *,
    gpus: Sequence[int] | None = None,
    progress: Progress | None = None,
    max_usd: float | None = None,
) -> Place:
    """Start the engine of that name; raise EvaluationError where there is none or it cannot be had.

    Raises MissingExtraError where what it needs is not installed. An engine that sends a bill stops before
    `max_usd` dollars are spent.
    """
    if name not in ENGINES:
        raise EvaluationError(f"--engine must be one of {', '.join(ENGINES)}, got {name!r}")
    return ENGINES[name](device, gpus, progress, max_usd)
