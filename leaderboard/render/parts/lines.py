"""Turns records into the lines that tables show: one an entry, one a kernel. Computes no score."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from kernel_evaluator.records.keys import RANKED_LEVELS, KernelKey
from kernel_evaluator.records.rows import ResultFile, Row, Status
from kernel_evaluator.scores import published_interval

from leaderboard.light.roofline import Roof, roofs_for
from leaderboard.render import places
from leaderboard.render.parts import numbers
from leaderboard.render.parts.languages import language
from leaderboard.stages.standings import Board, Standing

STATUS_WORDS = {
    Status.CORRECT: "correct",
    Status.MISMATCH: "wrong result",
    Status.FRAGILE: "fragile",
    Status.COMPILE_ERROR: "does not compile",
    Status.RUNTIME_ERROR: "fails at run time",
    Status.TIMEOUT: "too slow to finish",
    Status.OUT_OF_MEMORY: "out of memory",
    Status.REJECTED: "rejected",
    Status.QUARANTINED: "quarantined",
    Status.INFRA_ERROR: "not measured",
}


class KernelLine(NamedTuple):
    """One kernel as tables show it; `light_share` is the share of light speed that it reaches.

    A tuple, since a large board has hundreds of thousands, and processes send them to each other.
    """

    problem: str
    sample: int
    entry: str
    status: Status
    speedup: float | None
    interval: tuple[float, float] | None
    runtime_ms: float | None
    reference_ms: float | None
    light_share: float | None
    labels: tuple[str, ...]
    message: str
    kernel_sha256: str
    language: str

    @property
    def key(self) -> KernelKey:
        """Level, problem and sample."""
        return _key(self.problem, self.sample)

    @property
    def words(self) -> str:
        """The status in words."""
        return STATUS_WORDS[self.status]

    @property
    def is_correct(self) -> bool:
        """Whether the kernel counts as correct."""
        return self.status is Status.CORRECT

    @property
    def light_interval(self) -> tuple[float, float] | None:
        """The 95 % interval of `light_share`: as wide, for its size, as the published one of the speedup."""
        if self.light_share is None or self.interval is None or not self.speedup:
            return None
        low, high = (self.light_share * bound / self.speedup for bound in self.interval)
        return low, high

    @property
    def is_faster(self) -> bool:
        """Whether the kernel is faster than the reference beyond doubt: its whole interval lies above 1."""
        return self.is_correct and self.interval is not None and self.interval[0] > 1


@dataclass(frozen=True)
class EntryLine:
    """One entry on a board, with how many others share its rank."""

    standing: Standing
    page: str
    sharing: int
    name: str
    organization: str
    backend: str
    precision: str
    model: str
    scaffold: str
    cost_usd: float | None
    tokens: int | None

    @property
    def origin(self) -> str:
        """Who wrote the kernels, as far as the entry says: a model, and what ran it."""
        if self.standing.kind == "baseline":
            return ""
        return ", ".join(filter(None, (self.model, self.scaffold))) or "origin not stated"

    @property
    def rank(self) -> str:
        """The rank as shown, `2=` where it is shared."""
        return numbers.rank(self.standing.rank, self.sharing)

    @property
    def date(self) -> str:
        """The day the entry's evaluation ended."""
        return numbers.date(self.standing.result.finished_at)


def entry_lines(board: Board) -> list[EntryLine]:
    """Give a board's entries in its order."""
    ranks = Counter(standing.rank for standing in board.standings)
    return [_entry_line(board.name, standing, ranks[standing.rank]) for standing in board.standings]


def is_scored(key: KernelKey, unranked: Container[str]) -> bool:
    """Whether a kernel counts in an entry's scores: the first sample of a problem that ranks."""
    return key.sample == 0 and key.level in RANKED_LEVELS and _problem(key) not in unranked


def kernel_line(row: Row, entry: str, roofs: Mapping[str, Roof], written_in: str) -> KernelLine:
    """Give one row as tables show it."""
    problem = _problem(row.key)
    runtime = row.runtime_ms.median if row.runtime_ms else None
    roof = roofs.get(problem)
    failure = row.failure
    return KernelLine(
        problem,
        row.key.sample,
        entry,
        row.status,
        row.speedup,
        published_interval(row.speedup_ci95),
        runtime,
        row.reference_ms.median if row.reference_ms else None,
        roof.share(runtime) if roof and runtime else None,
        row.labels,
        "" if failure is None else numbers.plain(f"{failure.name}: {failure.message}", 220),
        row.kernel_sha256,
        written_in,
    )


def kernel_lines(result: ResultFile, sources: Mapping[KernelKey, str]) -> Iterator[KernelLine]:
    """Give every row of a result file as tables show it; `sources` are those of its submission."""
    roofs = roofs_for(result)
    return (
        kernel_line(row, result.entry, roofs, language(sources[row.key]) if row.key in sources else "")
        for row in result.rows
    )


@cache
def _problem(key: KernelKey) -> str:
    """Name a kernel's problem; equal names become one object, for they stand in every entry."""
    return places.problem_id(key)


@cache
def _key(problem: str, sample: int) -> KernelKey:
    level, problem_id = problem.split("_")
    return KernelKey(int(level), int(problem_id), sample)


def _entry_line(board: str, standing: Standing, sharing: int) -> EntryLine:
    generation = standing.metadata.get("generation") or {}
    cost, tokens = (_number(generation.get(name)) for name in ("cost_usd", "tokens"))
    return EntryLine(
        standing,
        places.entry_page(board, standing.entry),
        sharing if standing.rank is not None else 1,
        numbers.plain(standing.display_name, 80) or standing.entry,
        numbers.plain(standing.organization, 80),
        numbers.plain(standing.metadata.get("backend", ""), 40),
        numbers.plain(standing.metadata.get("precision", ""), 40),
        numbers.plain(generation.get("model", ""), 80),
        numbers.plain(generation.get("scaffold", ""), 80),
        None if cost is None else round(cost, 6),  # as `kbl pack` writes it: no axis can go down to 1e-300
        None if tokens is None else int(tokens),
    )


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
