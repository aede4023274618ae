"""What settings of an evaluation can be, and its problems: checks for callers whose options are free text."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from kernel_evaluator.problems.problem_set import Problem, ProblemSet, read_sizes
from kernel_evaluator.records.rows import Sizes

from leaderboard.checks.kernels import bound_names
from leaderboard.texts.python_source import parsed

if TYPE_CHECKING:
    from kernel_evaluator.problems.jobs import Settings

LONGEST_S = 86_400.0
"""The most seconds that an option takes: a day, which every clock and every wait can count."""

_OF_A_PROBLEM = ("Model", "get_inputs", "get_init_inputs")


class ProfileChoice(StrEnum):
    """Whose rules: the board's, or KernelBench's."""

    RANKED = "ranked"
    COMPAT = "compat"


class TimingMethod(StrEnum):
    """KernelBench's clocks for single calls."""

    CUDA_EVENT = "cuda_event"
    HOST_TIME = "host_time"
    DO_BENCH = "do_bench"


CHOICES = {
    "profile": tuple(ProfileChoice),
    "precision": ("fp32", "fp16", "bf16"),
    "timing_method": tuple(TimingMethod),
}


def checked(settings: Settings) -> Settings:
    """Give the settings back. Raises ValueError for what no evaluation can have, by KernelBench's name."""
    for name, known in CHOICES.items():
        if (value := getattr(settings, name)) not in known:
            raise ValueError(f"{name} must be one of {', '.join(known)}; got {value!r}")
    if settings.trials < 1:
        raise ValueError(f"num_correct_trials must be 1 or more, got {settings.trials}")
    if not 0 < settings.timeout_s <= LONGEST_S:
        raise ValueError(
            f"timeout must be above 0 and at most {LONGEST_S:g} seconds, got {settings.timeout_s}"
        )
    return settings


def sizes_on(device: str) -> Sizes:
    """Give the sizes that problems have on a device where nobody chose: a CPU takes reduced ones."""
    return "reduced" if device == "cpu" else "full"


def reductions(sizes: Sizes) -> Mapping[str, Mapping[str, Any]]:
    """Give the table by which `Problem.reduced` makes problems of these sizes; empty for full ones."""
    return read_sizes() if sizes == "reduced" else {}


def chosen_problems(levels: Iterable[int], problem_ids: Collection[int]) -> list[Problem]:
    """Give these problems of some levels, all where none is named; raise ValueError where one is in none."""
    problem_set, asked = ProblemSet(), list(dict.fromkeys(levels))
    there = [(level, problem_id) for level in asked for problem_id in problem_set.ids(level)]
    if unknown := sorted(set(problem_ids) - {problem_id for _, problem_id in there}):
        raise ValueError(
            f"problem_ids: no problem {unknown[0]} in level {' or '.join(map(str, asked))}; "
            "kbl problems list names them"
        )
    return [problem_set.load(*place) for place in there if not problem_ids or place[1] in problem_ids]


class AnySet(ProblemSet):
    """A problem set that anybody wrote: a file that is not UTF-8 is named."""

    def load(self, level: int, problem_id: int) -> Problem:
        """Read one problem; raise KeyError where the folder lacks it, ValueError where it is not UTF-8."""
        try:
            return super().load(level, problem_id)
        except UnicodeDecodeError as error:
            path = self._paths[level][problem_id]
            raise ValueError(f"{path}: must be UTF-8: {error}; save it anew") from error


def checked_problem(problem: Problem) -> Problem:
    """Give a problem with the source that runs; raise ValueError, which names the file, where none would."""
    try:
        return replace(problem, source=problem_source(problem.source))
    except ValueError as error:
        raise ValueError(f"{problem.path or problem.name}: {error}; mend it, or take it out") from error


def problem_source(source: str) -> str:
    """Give a problem's source without a byte order mark; raise ValueError where it cannot be a problem.

    It must parse, and bind what a problem has.
    """
    source = source.removeprefix("\ufeff")  # Python leaves it out of a file, but not out of a text
    try:
        bound = set(bound_names(parsed(source, "problem")))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"a problem must be Python: {error}") from error
    lacking = [name for name in _OF_A_PROBLEM if name not in bound]
    if lacking and "*" not in bound:
        raise ValueError(f"a problem must define {', '.join(_OF_A_PROBLEM)}; missing: {', '.join(lacking)}")
    return source
