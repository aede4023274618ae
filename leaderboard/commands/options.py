"""Options that several commands have, and what is made of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from leaderboard.texts.lists import first_words

if TYPE_CHECKING:
    from kernel_evaluator.problems.problem_set import Problem, ProblemSet
    from kernel_evaluator.records.keys import KernelKey
    from kernel_evaluator.records.rows import ResultFile

    from leaderboard.stages.plan import Selection

Numbers = TypeVar("Numbers", float, float | None, Sequence[float] | None)


class DeviceChoice(StrEnum):
    """What kernels run on. `auto` takes a GPU where there is one."""

    AUTO = "auto"
    CUDA = "cuda"
    CPU = "cpu"


class Format(StrEnum):
    """How figures are printed."""

    TABLE = "table"
    MARKDOWN = "markdown"
    CSV = "csv"
    JSON = "json"

    @property
    def style(self) -> str:
        """What `tabulate` calls it, where it is one for reading."""
        return "simple" if self is Format.TABLE else "github"


Problems = Annotated[Path | None, typer.Option(help="Folder with level1/, level2/, …")]
Levels = Annotated[list[int] | None, typer.Option(help="Only this level; may be repeated.")]
Only = Annotated[str, typer.Option(help="Only these problems: 1/19,2/40.")]
Samples = Annotated[list[int] | None, typer.Option(help="Only this sample; may be repeated.")]
Gpus = Annotated[str, typer.Option(help="GPU indices: 0,1. All where left out.")]
Output = Annotated[Format, typer.Option("--format", help="How to print.")]


def finite(value: Numbers) -> Numbers:
    """Give an option's number, or its numbers, back; the callback of options that take floats.

    An option's `min` and `max` are not enough: an older Typer lets nan through, with which every
    comparison is false.
    """
    numbers = [value] if isinstance(value, float) else value or ()
    for number in numbers:
        if not math.isfinite(number):
            raise typer.BadParameter(f"{number} is no finite number; give one such as 1.5")
    return value


def parse_indices(text: str) -> list[int] | None:
    """Read GPU indices such as `0,1`; None where the text is empty."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not all(part.isdecimal() for part in parts):
        raise ValueError(f"--gpus must look like 0,1, got {text!r}")
    if len(set(map(int, parts))) < len(parts):
        raise ValueError(f"--gpus must name each GPU once, got {text!r}: two kernels would be timed on one")
    return [int(part) for part in parts] or None


def selection_of(level: Iterable[int] | None, only: str, sample: Iterable[int] | None = None) -> Selection:
    """Build the selection that `--level`, `--only` and `--sample` describe."""
    from kernel_evaluator.records.keys import MAX_SAMPLE, PROBLEM_COUNTS

    from leaderboard.stages.plan import Selection, parse_problem_list

    for name, given, least, most in (
        ("level", level, 1, max(PROBLEM_COUNTS)),
        ("sample", sample, 0, MAX_SAMPLE),
    ):
        for number in given or ():
            if not least <= number <= most:
                raise ValueError(f"--{name} must be {least} to {most}, got {number}")
    return Selection(
        levels=frozenset(level or ()), problems=parse_problem_list(only), samples=frozenset(sample or ())
    )


def picked_of(kernels: Mapping[KernelKey, str], selection: Selection) -> dict[KernelKey, str]:
    """Give the kernels of a submission that the selection picks; raise ValueError where there are none."""
    picked = {key: source for key, source in kernels.items() if selection.wants(key)}
    if not picked:
        some = first_words([*map(str, kernels)], 3)
        raise ValueError(f"--level, --only and --sample pick none of its kernels: {some}")
    return picked


def require_folder(option: str, path: Path) -> None:
    """Raise ValueError where a file is in the place of a folder, which need not be there."""
    if path.exists() and not path.is_dir():
        raise ValueError(f"{option} must be a folder, {path} is a file")


def submission_of(result: ResultFile, named: Path | None, submissions: Path = Path("submissions")) -> Path:
    """Give the path of a result's submission: the one of its entry's name where `--submission` names none."""
    path = named or submissions / f"{result.entry}.json"
    if named is None and not path.exists():
        raise ValueError(f"{path}: there is no such file; name the submission with --submission")
    return path


def problem_set_in(root: Path | None) -> ProblemSet:
    """Open the problem set of `--problems`; this project's where none is named."""
    from kernel_evaluator.records.places import PROBLEM_SET

    from leaderboard.stages.checked import AnySet

    return AnySet(root or PROBLEM_SET)


def picked_problems(root: Path | None, level: Iterable[int] | None, only: str) -> list[Problem]:
    """Read the problems that `--level` and `--only` pick; raise ValueError where there are none."""
    from kernel_evaluator.records.keys import KernelKey

    selection = selection_of(level, only)
    whole = problem_set_in(root)
    picked = [each for each in whole if selection.wants(KernelKey(each.level, each.problem_id))]
    if not picked:
        raise ValueError(f"--level and --only pick no problem under {whole.root}; widen the choice")
    return picked
