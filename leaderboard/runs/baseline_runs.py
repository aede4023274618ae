"""PyTorch's own times a problem, measured by the evaluator: runs the baseline entries, derives the file.

The reference is timed beside every kernel, so a result of any entry holds plain PyTorch's times, and one of
torch.compile's holds both. Writes no file but the work files of a run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernel_evaluator.baselines import BaselineFile, BaselineTiming, ProblemBaseline
from kernel_evaluator.problems.jobs import Settings
from kernel_evaluator.problems.problem_set import Problem, ProblemSet
from kernel_evaluator.records.keys import RANKED_LEVELS, KernelKey
from kernel_evaluator.records.rows import Environment, ResultFile, Row, Timing

from leaderboard.files.submission import unsent
from leaderboard.stages.engines import Place
from leaderboard.stages.evaluate import Evaluation, evaluate, load_problems
from leaderboard.stages.plan import Selection
from leaderboard.stages.references import is_compile

_COMPILED = '''

class ModelNew(Model):
    """The reference, compiled by torch.compile{how}."""

    def __init__(self, *args):
        super().__init__(*args)
        self.compile({arguments})
'''

EAGER_ENDING = "\n\nModelNew = Model\n"
COMPILED_ENDING = _COMPILED.format(how="", arguments="")
AUTOTUNED_ENDING = _COMPILED.format(
    how=" with max-autotune, without CUDA graphs", arguments='mode="max-autotune-no-cudagraphs"'
)
"""What follows a problem's source to make it a kernel: PyTorch as it stands, compiled, and tuned."""


@dataclass(frozen=True, kw_only=True)
class BaselineRun:
    """What is asked of a measurement: where, how, which problems, and where it keeps its work."""

    place: Place
    settings: Settings
    problem_set: ProblemSet
    selection: Selection
    work_root: Path

    def measure(self, on_row: Callable[[Row], None]) -> BaselineFile:
        """Time the compiled reference beside the plain one; where it fails, the plain one beside itself.

        Raises ValueError where nothing could be timed, EvaluationError where the engine cannot do it.
        """
        problems = [p for p in self.problem_set if self.selection.levels or p.level in RANKED_LEVELS]
        results = [self._run("torch-compile", problems, COMPILED_ENDING, on_row)]
        timed = {(r.key.level, r.key.problem_id) for r in _timed(results[0])}
        left = [p for p in problems if (p.level, p.problem_id) not in timed]
        if left:
            results.append(self._run("pytorch-eager", left, EAGER_ENDING, on_row))
        return baseline_of(eager=results[::-1], compiled=results[0])

    def _run(
        self, entry: str, problems: Sequence[Problem], ending: str, on_row: Callable[[Row], None]
    ) -> ResultFile:
        kernels = reference_kernels(problems, ending)
        evaluation = Evaluation(
            submission=unsent(entry, kernels),
            problems=load_problems(self.problem_set, kernels, self.settings.sizes),
            settings=self.settings,
            gpu=self.place.gpu,
            selection=self.selection,
            confirms=False,
            work_root=self.work_root,
        )
        return evaluate(evaluation, self.place.engine, on_row).result


def reference_kernels(problems: Iterable[Problem], ending: str) -> dict[KernelKey, str]:
    """Make a kernel of each problem's own source."""
    return {KernelKey(p.level, p.problem_id): p.source.rstrip() + ending for p in problems}


def baseline_of(*, eager: Sequence[ResultFile], compiled: ResultFile | None) -> BaselineFile:
    """Derive the baselines: plain PyTorch from the first result that timed it, compiled from its own rows.

    Raises ValueError unless all are by the rules of one board, and what is compiled is so by its name.
    """
    if compiled is not None and not is_compile(compiled.entry):
        raise ValueError(
            f"the second result must be of torch-compile, got one of {compiled.entry}: "
            "its times would stand as those of torch.compile"
        )
    files = [*eager, *([compiled] if compiled and compiled not in eager else [])]
    kinds = {(file.board, file.profile) for file in files}
    if len(kinds) != 1 or files[0].profile != "ranked":
        raise ValueError(f"the results must be ranked ones of one board, got {sorted(kinds)}")
    plain = {_problem(row): row.reference_ms for file in reversed(files) for row in _timed(file)}
    fast = {_problem(row): row.runtime_ms for row in _timed(compiled)} if compiled else {}
    if not plain:
        raise ValueError("no row of the results has a time")
    return BaselineFile(
        gpu=files[0].gpu,
        source=_source(files),
        measured_here=True,
        environment=_environment(files),
        problems={
            name: ProblemBaseline(eager=_baseline(plain[name]), compiled=_baseline(fast.get(name)))
            for name in plain
        },
        sizes=files[0].sizes,
        precision=files[0].precision,
        measured_at=max(file.finished_at for file in files),
    )


def _timed(file: ResultFile) -> list[Row]:
    return [row for row in file.rows if row.is_correct and row.reference_ms is not None]


def _problem(row: Row) -> str:
    return f"{row.key.level}_{row.key.problem_id}"


def _baseline(timing: Timing | None) -> BaselineTiming | None:
    if timing is None:
        return None
    mean = min(max(timing.mean, timing.min), timing.max)  # the last digit of a mean may lie outside
    return BaselineTiming(
        mean=mean, std=timing.std, min=timing.min, max=timing.max, n=timing.n, median=timing.median
    )


def _environment(files: Sequence[ResultFile]) -> Environment:
    """The environment that measured most rows."""
    used = Counter(file.environments[row.environment] for file in files for row in _timed(file))
    return used.most_common(1)[0][0]


def _source(files: Sequence[ResultFile]) -> str:
    versions = ", ".join(sorted({file.evaluator_version for file in files}))
    entries = " and ".join(dict.fromkeys(file.entry for file in files))
    return f"Measured by this evaluator ({versions}) in interleaved batches, from the results of {entries}"
