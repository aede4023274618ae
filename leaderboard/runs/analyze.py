"""Scores of one run, broken down by level and category, against one or several references.

Pure: takes measured kernels, gives lines of figures. KernelBench's strict `>` is used throughout (`fast_p`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from kernel_evaluator import scores
from kernel_evaluator.problems.problem_set import ProblemSet
from kernel_evaluator.records.keys import KernelKey

from leaderboard.runs.reading import Measured
from leaderboard.stages.categories import category
from leaderboard.stages.plan import ProblemKey

MEASURED_BESIDE = "eager, measured beside"
DEFAULT_THRESHOLDS = (0.0, 0.5, 0.8, 1.0, 1.5, 2.0)
PERCENTILES = (10, 25, 50, 75, 90)


@dataclass(frozen=True, kw_only=True)
class Figures:
    """The scores of one group of problems. `timed` kernels are correct and have a time and a reference.

    What hangs on times is None where samples 0 of the run are correct, and none of them has a time.
    """

    group: str
    against: str
    problems: int
    submitted: int
    compiled: int
    correct: int
    timed: int
    geomean_speedup: float | None
    deployed_speedup: float | None
    fast_p: Mapping[float, float | None]
    percentiles: Mapping[int, float]
    pass_at_k: Mapping[int, float]

    def flat(self) -> dict[str, float | int | str | None]:
        """Give the figures as one line: for tables and CSV."""
        line: dict[str, float | int | str | None] = {
            "group": self.group,
            "against": self.against,
            "problems": self.problems,
            "submitted": self.submitted,
            "compiled": self.compiled,
            "correct": self.correct,
            "correct_rate": scores.rate(self.correct, self.problems),
            "timed": self.timed,
            "geomean": self.geomean_speedup,
            "deployed": self.deployed_speedup,
        }
        line |= {f"fast_{p:.15g}": share for p, share in self.fast_p.items()}
        line |= {f"p{q}": self.percentiles.get(q) for q in PERCENTILES}
        return line | {f"pass@{k}": value for k, value in self.pass_at_k.items()}


@dataclass(frozen=True, kw_only=True)
class Question:
    """What to work out. `references` maps a name to milliseconds by problem."""

    references: Mapping[str, Mapping[ProblemKey, float]] = field(default_factory=dict)
    thresholds: Sequence[float] = DEFAULT_THRESHOLDS
    pass_at: Sequence[int] = (1,)
    by_category: bool = True


def analyze(measured: Measured, problem_set: ProblemSet, question: Question) -> list[Figures]:
    """Score sample 0 of every problem of the levels that the run has, whole, by level and by category.

    Rates are over all problems of the group: missing and failed kernels count.
    """
    groups = _groups(measured, problem_set, question)
    found = []
    for against, speedup in _references(measured, question).items():
        firsts = [(key, item) for key, item in measured.samples.items() if key.sample == 0]
        correct = [(key.level, key.problem_id) for key, item in firsts if item.correct]
        is_told = not correct or any(speedup(problem) is not None for problem in correct)
        told = speedup if is_told else None
        for name, problems in groups.items():
            found.append(
                _figures(measured, problems, group=name, against=against, speedup=told, question=question)
            )
    return found


def fast_p_curve(
    measured: Measured, problem_set: ProblemSet, question: Question
) -> dict[str, list[tuple[float, float]]]:
    """Give the steps (p, fast_p) of each reference's curve, over all problems of the run's levels."""
    problems = next(iter(_groups(measured, problem_set, question).values()))
    curves = {}
    for against, speedup in _references(measured, question).items():
        values = [speedup(problem) for problem in problems]
        steps = sorted({0.0, *(value for value in values if value is not None)})
        curves[against] = [(p, scores.fast_p(values, p, len(problems))) for p in steps]
    return curves


Speedup = Callable[[ProblemKey], float | None]


def _references(measured: Measured, question: Question) -> dict[str, Speedup]:
    def beside(problem: ProblemKey) -> float | None:
        sample = measured.samples.get(KernelKey(*problem))
        return sample.speedup if sample else None

    def over(times: Mapping[ProblemKey, float]) -> Speedup:
        def speedup(problem: ProblemKey) -> float | None:
            sample = measured.samples.get(KernelKey(*problem))
            if sample is None or sample.runtime_ms is None or problem not in times:
                return None
            return scores.speedup(times[problem], sample.runtime_ms)

        return speedup

    found: dict[str, Speedup] = {}
    if any(sample.speedup is not None for sample in measured.samples.values()) or not question.references:
        found[MEASURED_BESIDE] = beside
    return found | {name: over(times) for name, times in question.references.items()}


def _groups(
    measured: Measured, problem_set: ProblemSet, question: Question
) -> dict[str, Sequence[ProblemKey]]:
    levels = measured.levels
    known = {(level, i) for level in levels for i in problem_set.ids(level)}
    known |= {(key.level, key.problem_id) for key in measured.samples}
    every = {level: sorted(problem for problem in known if problem[0] == level) for level in levels}
    whole: dict[str, Sequence[ProblemKey]] = {}
    if len(levels) != 1:
        whole["all"] = [problem for level in levels for problem in every[level]]
    whole |= {f"level {level}": problems for level, problems in every.items()}
    parts: dict[str, list[ProblemKey]] = {}
    for level in levels if question.by_category else ():
        for i in problem_set.ids(level):
            name = f"level {level}: {category(level, problem_set.load(level, i).name)}"
            parts.setdefault(name, []).append((level, i))
    return whole | dict(sorted(parts.items()))


def _figures(
    measured: Measured,
    problems: Sequence[ProblemKey],
    *,
    group: str,
    against: str,
    speedup: Speedup | None,
    question: Question,
) -> Figures:
    firsts = [measured.samples.get(KernelKey(*problem)) for problem in problems]
    there = [sample for sample in firsts if sample is not None]
    values = [speedup(problem) if speedup else None for problem in problems]
    return Figures(
        group=group,
        against=against,
        problems=len(problems),
        submitted=len(there),
        compiled=sum(sample.compiled for sample in there),
        correct=sum(sample.correct for sample in there),
        timed=sum(value is not None for value in values),
        geomean_speedup=scores.geomean(values),
        deployed_speedup=scores.deployed_speedup(values, len(problems)) if speedup else None,
        fast_p={p: scores.fast_p(values, p, len(problems)) if speedup else None for p in question.thresholds},
        percentiles=scores.percentiles(values, PERCENTILES),
        pass_at_k=_pass_at_k(measured, problems, question.pass_at),
    )


def _pass_at_k(measured: Measured, problems: Sequence[ProblemKey], wanted: Sequence[int]) -> dict[int, float]:
    """Average over all problems of the group; one without samples counts as never passed."""
    drawn: dict[ProblemKey, list[bool]] = {problem: [] for problem in problems}
    for key, sample in measured.samples.items():
        if (key.level, key.problem_id) in drawn:
            drawn[key.level, key.problem_id].append(sample.correct)
    return {
        k: sum(scores.pass_at_k(len(d), sum(d), k) for d in drawn.values() if d) / len(problems)
        for k in wanted
    }
