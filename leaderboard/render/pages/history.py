"""The pages across problems and across time: the matrix of problems and entries, and the records."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from leaderboard.render import places
from leaderboard.render.pages.answers import counts
from leaderboard.render.parts import numbers, plots
from leaderboard.render.parts.lines import EntryLine, KernelLine
from leaderboard.render.site import BoardView, Site

COLUMNS_IN_PAGE = 12
RECORDS_IN_PAGE = 100
LINES = 5
"""Lines of models in the drawing, the fastest of them; with all together as many as there are colours."""
TOGETHER = "all together"

Arrival = tuple[str, EntryLine, KernelLine]
"""When a kernel was first found correct, by which entry, and what it is."""


@dataclass(frozen=True)
class Record:
    """A kernel that was the fastest of its problem when it came."""

    at: str
    line: KernelLine
    before: KernelLine | None
    entry: EntryLine
    holder: EntryLine | None

    @property
    def date(self) -> str:
        """The day on which it was first found correct."""
        return numbers.date(self.at)


@dataclass(frozen=True)
class Past:
    """What came to a board, oldest first, and the records among it, in order and by problem."""

    arrivals: Sequence[Arrival]
    records: Sequence[Record]
    by_problem: Mapping[str, Sequence[Record]]


@dataclass(frozen=True)
class Progress:
    """A moment, and the deployed speedup of the best kernels up to it together, over all ranked problems."""

    at: str
    deployed: float
    problems: int

    @property
    def date(self) -> str:
        """The day."""
        return numbers.date(self.at)


def write_matrix(site: Site, view: BoardView) -> None:
    """Write the page with problems as rows and the best entries as columns."""
    columns = view.entries[:COLUMNS_IN_PAGE]
    cells = {
        line.standing.entry: {
            kernel.problem: kernel for kernel in view.by_entry[line.standing.entry] if not kernel.sample
        }
        for line in columns
    }
    site.page(
        places.matrix_page(view.name),
        "matrix.html",
        view=view,
        columns=columns,
        cells=cells,
        problems=site.problems,
        levels=sorted({item.level for item in site.problems.values()}),
    )


def write_records(site: Site, view: BoardView) -> None:
    """Write the page of records over time."""
    found = past(site, view).records
    progress = progress_of(view, found)
    site.page(
        places.records_page(view.name),
        "records.html",
        view=view,
        records=list(reversed(found))[:RECORDS_IN_PAGE],
        total=len(found),
        progress=progress,
        chart=frontier(site, view, progress),
        problem_names={problem: item.name for problem, item in site.problems.items()},
    )
    site.folder.write_json(
        places.records_api(view.name),
        {
            "schema_version": 1,
            "board": view.name,
            "records": [
                {
                    "date": item.date,
                    "problem": item.line.problem,
                    "entry": item.line.entry,
                    "speedup": item.line.speedup,
                    "before": item.before.speedup if item.before else None,
                    "before_entry": item.before.entry if item.before else None,
                }
                for item in found
            ],
        },
    )


def frontier(site: Site, view: BoardView, progress: list[Progress]) -> plots.TimePlot | None:
    """Draw what the best kernels give together over time: of all entries, and of each model's alone.

    Entries that name no model stand for themselves. Marked is when another evaluator came.
    """
    series: dict[str, list[tuple[str, float, str]]] = {TOGETHER: _points(progress)}
    authors = {line.standing.entry: line.model or line.name for line in view.entries}
    by_author: dict[str, list[Arrival]] = defaultdict(list)
    for arrival in past(site, view).arrivals:
        by_author[authors[arrival[2].entry]].append(arrival)
    own = {author: progress_of(view, records_among(view, some)) for author, some in by_author.items()}
    last = {author: points[-1].deployed for author, points in own.items() if points}
    for author in sorted(last, key=lambda name: -last[name])[:LINES]:
        series[author] = _points(own[author])
    if len(last) == 1:
        series.pop(TOGETHER)
    pages = {line.name: line.page for line in view.entries if not line.model}
    return plots.time_plot(series, pages=pages, marks=evaluators(site, view))


def evaluators(site: Site, view: BoardView) -> list[tuple[str, str]]:
    """Give the moments at which rows of another evaluator first came to the board: (time, digest)."""
    first: dict[str, str] = {}
    for line in view.entries:
        place = view.name, line.standing.entry
        seen = [(item.finished_at, item.evaluator_sha256) for item in site.data.history.get(place, ())]
        for digest, _ in site.data.evaluators.get(place, Counter()).most_common(1):
            seen.append((line.standing.result.finished_at, digest))
        for at, digest in seen:
            if digest:
                first[digest] = min(at, first.get(digest, at))
    ordered = sorted((at, digest[:8]) for digest, at in first.items())
    return ordered[1:]


def _points(progress: list[Progress]) -> list[tuple[str, float, str]]:
    return [
        (
            point.at,
            point.deployed,
            f"{point.date}: {numbers.speedup(point.deployed)}, {point.problems} problems",
        )
        for point in progress
    ]


def records_among(view: BoardView, ordered: Iterable[Arrival]) -> list[Record]:
    """Give the records among some kernels, oldest first. Speedups are the latest, of all kernels."""
    best: dict[str, KernelLine] = {}
    found: list[Record] = []
    for finished_at, entry, line in ordered:
        before = best.get(line.problem)
        if before and (line.speedup or 0) <= (before.speedup or 0):
            continue
        best[line.problem] = line
        holder = view.names[before.entry] if before else None
        found.append(Record(finished_at, line, before, entry, holder))
    return found


def past(site: Site, view: BoardView) -> Past:
    """Give what came to a board and what held the record; worked out once."""
    if view.name not in site.remembered:
        came = sorted(_arrivals(site, view), key=_by_arrival)
        found = records_among(view, came)
        by_problem: dict[str, list[Record]] = defaultdict(list)
        for record in found:
            by_problem[record.line.problem].append(record)
        site.remembered[view.name] = Past(came, found, by_problem)
    remembered: Past = site.remembered[view.name]
    return remembered


def _arrivals(site: Site, view: BoardView) -> Iterator[Arrival]:
    """Give the kernels that beat PyTorch, with the end of the first evaluation that found them correct."""
    for entry in view.entries:
        if entry.standing.kind == "baseline":
            continue
        finished_at = entry.standing.result.finished_at
        first_correct = site.data.first_correct.get((view.name, entry.standing.entry), {})
        for line in view.by_entry[entry.standing.entry]:
            if line.speedup and line.speedup > 1 and line.is_correct and not line.sample:
                at = first_correct.get((line.key, line.kernel_sha256), finished_at)
                yield min(at, finished_at), entry, line


def _by_arrival(arrival: Arrival) -> tuple[str, str, int, int]:
    finished_at, entry, line = arrival
    return finished_at, entry.standing.entry, line.key.level, line.key.problem_id


def progress_of(view: BoardView, found: Sequence[Record]) -> list[Progress]:
    """Follow the deployed speedup of the best kernels together, one point an evaluation."""
    problems = view.entries[0].standing.overall.ranked_problems if view.entries else 0
    logs: dict[str, float] = {}
    points: dict[str, Progress] = {}
    for record in found:
        if problems and counts(view, record.line.problem):
            logs[record.line.problem] = math.log(record.line.speedup or 1.0)
            total = math.exp(math.fsum(logs.values()) / problems)
            points[record.at] = Progress(record.at, total, len(logs))
    return list(points.values())
