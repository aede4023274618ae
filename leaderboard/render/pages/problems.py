"""The pages of the problems: the list of all, and one page each with its reference and the kernels on it."""

from __future__ import annotations

import ast
import statistics
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any

from kernel_evaluator.problems.problem_set import Problem
from kernel_evaluator.records.keys import RANKED_LEVELS

from leaderboard.light.roofline import CEILINGS, Roof
from leaderboard.render import places
from leaderboard.render.model import Baseline
from leaderboard.render.pages.answers import counts
from leaderboard.render.pages.entries import kernel_data
from leaderboard.render.pages.history import past
from leaderboard.render.parts import numbers, plots
from leaderboard.render.parts.code import highlighted
from leaderboard.render.parts.kernels import shards_for, write_code
from leaderboard.render.parts.lines import KernelLine
from leaderboard.render.site import KEPT, BoardView, Site, problem_title
from leaderboard.stages.categories import FAMILIES, family

SAMPLES = 10
"""Further samples of an entry whose code is kept on a large board."""
PLAIN = 10
"""So many of a problem's fastest kernels lie with the site as plain files too."""
ROWS_IN_PAGE = 25


@dataclass(frozen=True)
class AtlasCell:
    """One problem of the atlas; `over` is the best entry's speedup over the best of PyTorch.

    `unranked` says that the problem counts in no figure on the board.
    """

    problem: str
    item: Problem
    family: str
    over: float | None
    tone: str
    unranked: bool


@dataclass(frozen=True)
class Results:
    """What a board knows of one problem."""

    view: BoardView
    problem: str
    lines: list[KernelLine]
    correct: int
    baseline: Baseline
    roof: Roof | None
    unranked_because: str

    @property
    def best(self) -> KernelLine | None:
        """The fastest correct kernel, of an entry or of PyTorch."""
        found = filter(None, (self.best_sent, self.best_of_pytorch))
        return max(found, key=lambda line: line.speedup or 0.0, default=None)

    @cached_property
    def sent(self) -> int:
        """How many entries sent a first sample: baselines are what there is to beat, and solve nothing."""
        return sum(self._is_scored(line) for line in self.lines)

    @cached_property
    def solved(self) -> int:
        """How many entries have a correct kernel."""
        return sum(line.is_correct and self._is_scored(line) for line in self.lines)

    def _is_scored(self, line: KernelLine) -> bool:
        return line.entry not in self.view.baselines and not line.sample

    @property
    def best_sent(self) -> KernelLine | None:
        """The fastest correct kernel of an entry."""
        return self.view.fastest.get(self.problem)

    @property
    def best_of_pytorch(self) -> KernelLine | None:
        """The fastest correct baseline: eager PyTorch, torch.compile and what else was measured."""
        return self.view.best_of_pytorch.get(self.problem)

    @property
    def over_best(self) -> float | None:
        """How much faster the best entry is than the best of PyTorch; None where there is none."""
        best, torch = self.best_sent, self.best_of_pytorch
        if best is None or not best.speedup:
            return None
        return best.speedup / max(torch.speedup if torch and torch.speedup else 1.0, 1.0)

    @property
    def roofline(self) -> plots.RooflinePlot | None:
        """The kernels of the page under the device's roofs; None where no arithmetic counts."""
        names = {line.entry: self.view.names[line.entry].name for line in self.shown}
        return plots.roofline_plot(self.shown, self.view.roofs, *self.view.device, names=names)

    @property
    def shown(self) -> list[KernelLine]:
        """The kernels that stand in the page itself."""
        return self.lines[:ROWS_IN_PAGE]

    @property
    def kept(self) -> list[KernelLine]:
        """The kernels that programs and scripts find with the problem."""
        return self.lines[:KEPT]

    @property
    def plain(self) -> list[KernelLine]:
        """The fastest kernels, whose code lies with the site as plain files."""
        return [line for line in self.lines[:PLAIN] if line.is_correct and line.speedup]

    @property
    def code(self) -> Iterator[KernelLine]:
        """The kernels whose code lies with the site: the fastest, and further samples of their entries."""
        most = SAMPLES if self.view.is_large else None
        for line in self.kept:
            yield line
            yield from self.view.further.get((line.entry, self.problem), ())[:most]


def write_problem(site: Site, problem: str, held: Collection[str], page_key: str) -> None:
    """Write a problem's page, unless it was made from the same, its source, and its results as JSON.

    `held` are the digests of its code that lies with the site.
    """
    item, shards = site.problems[problem], shards_for(len(held))
    page = partial(_page, site, problem, held)
    site.folder.write_made(places.problem_page(problem), page_key, page)
    site.folder.write(f"problems/{problem}.py", item.source)
    for result in (results(site, view, problem) for view in site.boards):
        data = problem_data(result, item, shards=shards)
        site.folder.write_json(places.problem_api(result.view.name, problem), data)


def _page(site: Site, problem: str, held: Collection[str]) -> str:
    item = site.problems[problem]
    return site.rendered(
        places.problem_page(problem),
        "problem.html",
        problem=problem,
        item=item,
        title=problem_title(item.name),
        is_ranked=item.level in RANKED_LEVELS,
        description=description(item),
        sizes=constants(item),
        reference=highlighted(item.source),
        found=[results(site, view, problem) for view in site.boards],
        codes=held,
        shards=shards_for(len(held)),
        around=neighbours(site, problem),
        certified=problem in site.data.certified,
        deals=[(name, *found[problem]) for name, found in site.data.deals.items() if problem in found],
        ceilings=CEILINGS,
        family=family(item.level, item.name),
        progress=_progress(site, problem),
    )


def write_sources(site: Site, problem: str, sources: Mapping[str, str]) -> None:
    """Write the code of a problem's fastest kernels, by its digest."""
    found = (results(site, view, problem) for view in site.boards)
    plain = {line.kernel_sha256: None for result in found for line in result.plain}
    write_code(site.folder, problem, sources, shards=shards_for(len(sources)), plain=plain)


def _progress(site: Site, problem: str) -> list[tuple[BoardView, plots.TimePlot]]:
    """Draw who was fastest when, on each board where it was more than one kernel."""
    found = []
    for view in site.boards:
        points = [
            (
                record.at,
                record.line.speedup or 1.0,
                f"{record.date}: {numbers.speedup(record.line.speedup)}, {record.entry.name}",
            )
            for record in past(site, view).by_problem.get(problem, ())
        ]
        plot = plots.time_plot({"fastest kernel": points}) if len(points) > 1 else None
        if plot:
            found.append((view, plot))
    return found


def write_problem_list(site: Site) -> None:
    """Write the page that lists every problem, one for each board; without a board one without figures."""
    views: list[BoardView | None] = [*site.boards] or [None]
    for view in views:
        rows = [
            (problem, item, results(site, view, problem) if view else None, family(item.level, item.name))
            for problem, item in site.problems.items()
        ]
        site.page(
            places.problems_page(view.name, site.boards[0].name) if view else places.problems_page("", ""),
            "problems.html",
            view=view,
            rows=rows,
            atlas=atlas(rows),
            families=list(FAMILIES),
            certified=site.data.certified,
            roofline=plots.roofline_plot(view.fastest.values(), view.roofs, *view.device) if view else None,
        )


def atlas(rows: Sequence[tuple[str, Problem, Results | None, str]]) -> dict[int, list[AtlasCell]]:
    """Colour every problem by the best entry over the best of PyTorch: level to cells."""
    cells: dict[int, list[AtlasCell]] = {}
    for problem, item, found, of_family in rows:
        over = found.over_best if found else None
        unranked = bool(found and found.unranked_because)
        cells.setdefault(item.level, []).append(
            AtlasCell(problem, item, of_family, over, _tone(over), unranked)
        )
    return cells


def _tone(over: float | None) -> str:
    """Name the colour of a cell."""
    if over is None:
        return "open"
    return next(
        (name for least, name in ((2, "up3"), (1.2, "up2"), (1.02, "up1"), (0.98, "even")) if over >= least),
        "slower",
    )


def results(site: Site, view: BoardView, problem: str) -> Results:
    """Collect what a board knows of a problem; worked out once."""
    known = site.remembered.setdefault(f"results of {view.name}", {})
    if problem not in known:
        known[problem] = _results(site, view, problem)
    found: Results = known[problem]
    return found


def _results(site: Site, view: BoardView, problem: str) -> Results:
    lines = view.by_problem.get(problem, [])
    measured = [line.reference_ms for line in lines if line.reference_ms]
    baseline = site.data.baselines.get(view.name, {}).get(problem)
    if baseline is None:
        middle = statistics.median(measured) if measured else None
        baseline = Baseline(eager_ms=middle, source="the median of the times measured beside the kernels")
    return Results(
        view,
        problem,
        lines,
        sum(line.is_correct for line in lines),
        baseline,
        view.roofs.get(problem),
        view.board.unranked_problems.get(problem, ""),
    )


def kept_code(site: Site, problem: str) -> dict[str, tuple[str, str]]:
    """Say which code the site keeps of a problem: digest to the entry and the key of one who sent it."""
    lines = (line for view in site.boards for line in results(site, view, problem).code)
    return {line.kernel_sha256: (line.entry, str(line.key)) for line in lines}


def description(item: Problem) -> str:
    """Give the problem's own words: the docstring of its file."""
    return ast.get_docstring(_tree(item.source)) or ""


def constants(item: Problem) -> list[tuple[str, str]]:
    """Give the sizes of the problem as its file sets them: (name, expression)."""
    return list(_constants(_tree(item.source)))


def neighbours(site: Site, problem: str) -> tuple[str, str]:
    """Give the problems before and after this one; empty at the ends."""
    order = list(site.problems)
    at = order.index(problem)
    return order[at - 1] if at else "", order[at + 1] if at + 1 < len(order) else ""


def problem_data(result: Results, item: Problem, *, shards: int) -> dict[str, Any]:
    """Give a problem's results on a board as JSON, fastest first; its code lies in so many files."""
    names, plain = result.view.names, result.plain
    return {
        "schema_version": 1,
        "board": result.view.name,
        "problem": f"{item.level}_{item.problem_id}",
        "name": item.name,
        "problem_sha256": item.sha256,
        "eager_ms": numbers.rounded(result.baseline.eager_ms),
        "compiled_ms": numbers.rounded(result.baseline.compiled_ms),
        "roofline": None if result.roof is None else roof_data(result.roof),
        "unranked_because": result.unranked_because,
        "entries": len(result.lines),
        "shards": shards,
        "kernels": [
            {
                "entry": line.entry,
                "display_name": names[line.entry].name,
                "kind": names[line.entry].standing.kind,
                **kernel_data(line, counted=counts(result.view, result.problem)),
                **({"raw": places.raw_kernel(result.problem, line.kernel_sha256)} if line in plain else {}),
            }
            for line in result.kept
        ],
    }


def roof_data(roof: Roof) -> dict[str, Any]:
    """Give a problem's roofline as JSON."""
    return {
        "flops": roof.flops,
        "bytes": roof.bytes_moved,
        "light_ms": numbers.rounded(roof.light_ms),
        "memory_ms": numbers.rounded(roof.memory_ms),
        "compute_ms": {name: numbers.rounded(value) for name, value in roof.compute_ms.items()},
        "bound": roof.bound,
        "uses_tf32": roof.uses_tf32,
        "less": roof.less,
    }


@lru_cache(maxsize=1)
def _tree(source: str) -> ast.Module:
    try:
        return ast.parse(source)
    except SyntaxError:
        return ast.Module(body=[], type_ignores=[])


def _constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            yield statement.targets[0].id, ast.unparse(statement.value)
