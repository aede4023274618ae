"""The pages across problems and across time: the matrix of problems and entries, and the records."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from kernel_evaluator.records.keys import KernelKey

from leaderboard.render import places
from leaderboard.render.pages.boards import counts
from leaderboard.render.parts import charts, numbers
from leaderboard.render.parts.lines import EntryLine, KernelLine
from leaderboard.render.site import BoardView, Site

COLUMNS_IN_PAGE = 12
RECORDS_IN_PAGE = 100
CHART = (720.0, 220.0)
CHART_LEFT = 48.0
CHART_BOTTOM = 190.0
CHART_TOP = 14.0

Arrival = tuple[str, EntryLine, KernelLine]
"""When a kernel was first found correct, by which entry, and what it is."""


@dataclass(frozen=True)
class Record:
    """A kernel that was the fastest of its problem when it came."""

    date: str
    line: KernelLine
    before: KernelLine | None
    entry: EntryLine
    holder: EntryLine | None


@dataclass(frozen=True)
class Progress:
    """A day, and the deployed speedup of the best kernels up to it together, over all ranked problems."""

    date: str
    deployed: float
    problems: int


def write_matrix(site: Site, view: BoardView) -> None:
    """Write the page with problems as rows and the best entries as columns."""
    columns = view.entries[:COLUMNS_IN_PAGE]
    cells = {
        line.standing.entry: {
            kernel.problem: kernel for kernel in reversed(view.by_entry[line.standing.entry])
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
    found = records(site, view)
    progress = progress_of(view, found)
    site.page(
        places.records_page(view.name),
        "records.html",
        view=view,
        records=list(reversed(found))[:RECORDS_IN_PAGE],
        total=len(found),
        progress=progress,
        chart=_chart(progress),
        problem_names={problem: item.name for problem, item in site.problems.items()},
    )
    site.folder.write_json(
        f"{places.API}/boards/{places.slug(view.name)}.records.json",
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


def records(site: Site, view: BoardView) -> list[Record]:
    """Give every kernel that was the fastest of its problem when it was first found correct, oldest first.

    Speedups are the latest, of all kernels.
    """
    best: dict[str, KernelLine] = {}
    found: list[Record] = []
    for finished_at, entry, line in sorted(_arrivals(site, view), key=_by_arrival):
        before = best.get(line.problem)
        if before and (line.speedup or 0) <= (before.speedup or 0):
            continue
        best[line.problem] = line
        holder = view.names[before.entry] if before else None
        found.append(Record(numbers.date(finished_at), line, before, entry, holder))
    return found


def _arrivals(site: Site, view: BoardView) -> Iterator[Arrival]:
    """Give the kernels that beat PyTorch, with the end of the first evaluation that found them correct."""
    for entry in view.entries:
        if entry.standing.kind == "baseline":
            continue
        result = entry.standing.result
        first_correct = site.data.first_correct.get((view.name, result.entry), {})
        for line in view.by_entry[result.entry]:
            if line.is_correct and line.key.sample == 0 and line.speedup and line.speedup > 1:
                kernel = line.key, line.kernel_sha256
                yield min(first_correct.get(kernel, result.finished_at), result.finished_at), entry, line


def _by_arrival(arrival: Arrival) -> tuple[str, str, KernelKey]:
    finished_at, entry, line = arrival
    return finished_at, entry.standing.entry, line.key


def progress_of(view: BoardView, found: list[Record]) -> list[Progress]:
    """Follow the deployed speedup of the best kernels together, one point a day."""
    problems = view.entries[0].standing.overall.ranked_problems if view.entries else 0
    logs: dict[str, float] = {}
    points: dict[str, Progress] = {}
    for record in found:
        if problems and counts(view, record.line.problem):
            logs[record.line.problem] = math.log(record.line.speedup or 1.0)
            total = math.exp(math.fsum(logs.values()) / problems)
            points[record.date] = Progress(record.date, total, len(logs))
    return list(points.values())


def _chart(progress: list[Progress]) -> dict[str, object]:
    """Place the points: days across, deployed speedup upwards from 1."""
    width = CHART[0] - CHART_LEFT - 8
    top = max((point.deployed for point in progress), default=1.0)
    high = max(1.0 + (top - 1.0) * 1.15, 1.1)
    step = width / max(len(progress) - 1, 1)
    points = [
        (
            CHART_LEFT + at * step,
            CHART_BOTTOM - (point.deployed - 1) / (high - 1) * (CHART_BOTTOM - CHART_TOP),
        )
        for at, point in enumerate(progress)
    ]
    marks = [
        charts.Tick(_y(1 + (high - 1) * share, high), f"{1 + (high - 1) * share:.2f}×")
        for share in (0, 0.25, 0.5, 0.75, 1)
    ]
    shown = sorted({0, len(progress) // 2, len(progress) - 1}) if progress else []
    days = [charts.Tick(points[at][0], progress[at].date) for at in shown]
    return {"path": charts.steps_path(points, CHART[0] - 8), "points": points, "marks": marks, "days": days}


def _y(value: float, high: float) -> float:
    return CHART_BOTTOM - (value - 1) / (high - 1) * (CHART_BOTTOM - CHART_TOP)
