"""Figures that others published, with their source. Never ranked, never mixed with what was measured here."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from pathlib import Path

from kernel_evaluator.baselines import BaselineFile, ProblemBaseline

from leaderboard.files.baseline_files import read_baseline
from leaderboard.files.store import StoreError, read_strictly


@dataclass(frozen=True, kw_only=True)
class ReferenceLine:
    """One entry's figures as they were published; shares are of all problems."""

    name: str
    geomean: float
    fast_1: float
    correct_rate: float | None = None


@dataclass(frozen=True, kw_only=True)
class Source:
    """What one place published of one GPU, and the rules that it followed."""

    source: str
    gpu: str
    rules: str
    lines: tuple[ReferenceLine, ...]
    url: str = ""


@dataclass(frozen=True, kw_only=True)
class PublishedFigures:
    """Everything that others published: timing files by problem, and whole entries of other boards."""

    times: tuple[BaselineFile, ...] = ()
    boards: tuple[Source, ...] = ()

    @cached_property
    def sources(self) -> tuple[Source, ...]:
        """The reference lines for a board: entries of other boards first, then what a compiler gains."""
        return (*self.boards, *(_compiled(file) for file in self.times if _ratios(file.problems)))


def read_published(folder: Path) -> PublishedFigures:
    """Read boards that others published, in `times/` PyTorch's times; raise StoreError for a broken file."""
    boards, times = (
        sorted(place.glob("*.json"), key=attrgetter("stem")) for place in (folder, folder / "times")
    )
    return PublishedFigures(times=tuple(map(read_baseline, times)), boards=tuple(map(_read_source, boards)))


def _read_source(path: Path) -> Source:
    data = read_strictly(path)
    try:
        lines = tuple(ReferenceLine(**line) for line in data.pop("lines"))
        return Source(**data, lines=lines)
    except (TypeError, KeyError, AttributeError) as error:
        raise StoreError(f"{path}: not published figures: {error}") from error


def _compiled(file: BaselineFile) -> Source:
    ratios = _ratios(file.problems)
    geomean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    fast = sum(ratio >= 1 for ratio in ratios) / len(file.problems)
    line = ReferenceLine(name="torch.compile, default options", geomean=geomean, fast_1=fast)
    rules = f"mean time of eager PyTorch over that of torch.compile, {len(ratios)} problems, measured apart"
    return Source(source=file.source, gpu=file.gpu, rules=rules, lines=(line,))


def _ratios(problems: Mapping[str, ProblemBaseline]) -> list[float]:
    return [
        times.eager.typical / times.compiled.typical
        for times in problems.values()
        if times.eager and times.compiled
    ]
