"""Evaluates a run folder in place: our own result file beside the kernels, and KernelBench's files from it.

The result file (`evaluation/<board>/<run>.json`) is the truth and makes a run resumable; `eval_results.json`
and `pass_at_k_results.json` are written from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from kernel_evaluator.problems.jobs import Settings
from kernel_evaluator.problems.problem_set import ProblemSet
from kernel_evaluator.records.keys import KernelKey
from kernel_evaluator.records.rows import ResultFile, Row
from kernel_evaluator.upstream.files import (
    EvalResults,
    RunFolder,
    merge_results,
    read_eval_results,
    write_eval_results,
    write_pass_at_k,
)

from leaderboard.files import store
from leaderboard.files.submission import unsent
from leaderboard.runs.pack import read_source
from leaderboard.stages.engines import EvaluationError, Place
from leaderboard.stages.evaluate import Evaluation, EvaluationOutcome, evaluate, load_problems
from leaderboard.stages.plan import Selection


@dataclass(frozen=True, kw_only=True)
class RunEvaluation:
    """What to judge of a run: one level, problems from `first` to `last`, samples below `samples`."""

    run: RunFolder
    level: int
    settings: Settings
    problem_set: ProblemSet
    first: int = 1
    last: int = 1000
    problem_ids: Sequence[int] = ()
    samples: int = 1
    pass_at: Sequence[int] = (1,)

    def sources(self) -> dict[KernelKey, str]:
        """Read every kernel of the run; raise PackError for one that is not UTF-8."""
        return {key: read_source(self.run.kernel_path(key)) for key in self.run.kernel_keys()}

    def selection(self, kernels: Iterable[KernelKey]) -> Selection:
        """Say which of the run's kernels to judge now."""
        wanted = {
            (key.level, key.problem_id)
            for key in kernels
            if key.level == self.level
            and self.first <= key.problem_id <= self.last
            and (not self.problem_ids or key.problem_id in self.problem_ids)
        }
        return Selection(problems=frozenset(wanted), samples=frozenset(range(self.samples)))

    def judge(self, place: Place, on_row: Callable[[Row], None]) -> EvaluationOutcome:
        """Judge what has no good row yet, then write KernelBench's files.

        A kernel that the run lacks gets no row; it counts as failed in every rate. Raises EvaluationError
        where the run has no kernel in the range asked for, and where it has results of another level:
        KernelBench's files name problems without their level.
        """
        kernels = self.sources()
        selection = self.selection(kernels)
        if not selection.problems:
            raise EvaluationError(f"{self.run.path}: no kernel of level {self.level} in the range asked for")
        evaluation = Evaluation(
            submission=unsent(self.run.name, kernels),
            problems=load_problems(self.problem_set, kernels, self.settings.sizes),
            settings=self.settings,
            gpu=place.gpu,
            selection=selection,
            confirms=False,
            work_root=work_root(self.run),
        )
        judged = {row.key.level for result in evaluation.previous() for row in result.rows}
        if others := judged - {self.level}:
            raise EvaluationError(
                f"{self.run.path}: has results of level {min(others)}, which those of level {self.level} "
                "would replace; put the kernels of each level into a run folder of its own"
            )
        try:
            return evaluate(evaluation, place.engine, on_row)
        finally:
            self._write_results(evaluation.path)

    def _write_results(self, path: Path) -> None:
        if not path.is_file():
            return
        is_compat = self.settings.profile == "compat"  # whose clock one chooses; the board has one
        clock = self.settings.timing_method if is_compat else ""
        results = eval_results(store.read_result(path), clock)
        write_eval_results(self.run.eval_results_path, results)
        if self.samples > 1 or self.run.pass_at_k_path.is_file():  # else of verdicts before
            write_pass_at_k(self.run.pass_at_k_path, results, self.pass_at)


def work_root(run: RunFolder) -> Path:
    """Where a run's own result files are."""
    return run.path / "evaluation"


def result_of(run: RunFolder) -> ResultFile:
    """Read the run's result by the board's own rules; raise StoreError where there is not exactly one."""
    found = [(path, store.read_result(path)) for path in sorted(work_root(run).glob("*/*.json"))]
    ranked = [result for path, result in found if path.parent.name == result.board]
    if len(ranked) != 1:
        boards = ", ".join(result.board for result in ranked) or "none"
        raise store.StoreError(
            f"{run.path}: one result by the board's rules is needed, found {boards}; "
            "run scripts/eval_from_generations.py on one device"
        )
    return ranked[0]


def eval_results(result: ResultFile, clock: str = "") -> EvalResults:
    """Give a result file of one level as the content of `eval_results.json`.

    Each row has its precision, the profile, and KernelBench's name of the clock, where there was a choice.
    """
    conditions = {"precision": result.precision, "profile": result.profile}
    if clock:
        conditions["timing_method"] = clock
    merged = merge_results({}, [(row, result.environments.get(row.environment)) for row in result.rows])
    return {problem: [{**item, **conditions} for item in items] for problem, items in merged.items()}


def put_aside_foreign_results(run: RunFolder) -> Path | None:
    """Give results that another evaluator left under the name of ours another name; say which."""
    items = [item for listed in read_eval_results(run.eval_results_path).values() for item in listed]
    if all("evaluator_sha256" in item for item in items):
        return None
    names = (run.path / f"eval_results.other{number or ''}.json" for number in count())
    return run.eval_results_path.rename(next(path for path in names if not path.exists()))
