"""What a board answers at a glance: who is best, what is unsolved, who wins where, at what cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from leaderboard.render.cheats import Rates
from leaderboard.render.parts import charts, numbers
from leaderboard.render.parts.lines import EntryLine
from leaderboard.render.site import BoardView, Site
from leaderboard.stages.categories import FAMILIES, family
from leaderboard.stages.facets import by_family, pareto, wins_by_language
from leaderboard.stages.standings import Against

COST_SIZE = (720.0, 300.0)
COST_MARGIN = (52.0, 12.0, 20.0, 38.0)
"""Left, top, right and bottom margin of the drawing of speedup against cost."""


@dataclass(frozen=True, kw_only=True)
class BoardAnswer:
    """The board in one line. `place` says in words whether the best entry is first, alone or among others."""

    best: EntryLine
    place: str
    against_best: Against | None
    solved: int
    faster: int
    problems: int
    unsolved: int
    rates: Rates | None


@dataclass(frozen=True, kw_only=True)
class FamilyLine:
    """Who is best on one family of operators, and which languages its fastest kernels are written in.

    `wins` counts problems whose fastest kernel beats eager PyTorch, by language.
    """

    name: str
    problems: int
    unsolved: int
    best: EntryLine | None
    deployed_speedup: float | None
    wins: tuple[tuple[str, int], ...]


@dataclass(frozen=True, kw_only=True)
class CostPoint:
    """One entry in the drawing of speedup against cost."""

    line: EntryLine
    x: float
    y: float
    is_front: bool


@dataclass(frozen=True, kw_only=True)
class CostChart:
    """Deployed speedup over what generating the kernels cost, where entries say so."""

    points: tuple[CostPoint, ...]
    front: str
    across: tuple[charts.Tick, ...]
    upward: tuple[charts.Tick, ...]


def answer(site: Site, view: BoardView) -> BoardAnswer | None:
    """Give the board in one line; None where no entry is ranked."""
    best = view.best
    if best is None:
        return None
    problems = ranked_problems(site, view)
    fastest = [view.fastest[problem] for problem in problems if problem in view.fastest]
    first = "first" if best.sharing == 1 else "among the first"
    return BoardAnswer(
        best=best,
        place="the only entry" if view.sent == 1 else first,
        against_best=best.standing.against.get("best"),
        solved=len(fastest),
        faster=sum(line.is_faster for line in fastest),
        problems=len(problems),
        unsolved=len(problems) - len(fastest),
        rates=rates_of(site, view),
    )


def counts(view: BoardView, problem: str) -> bool:
    """Say whether a problem counts for the rank: not on level 4, and it can be judged."""
    return not problem.startswith("4_") and problem not in view.board.unranked_problems


def ranked_problems(site: Site, view: BoardView) -> list[str]:
    """Name the problems that count for the rank on a board."""
    return [problem for problem in site.problems if counts(view, problem)]


def rates_of(site: Site, view: BoardView | None) -> Rates | None:
    """Give the red team's rates on the board's device, else those of another; None where none is known."""
    found = {rates.device: rates for rates in site.data.rates}
    of_board = found.get(view.board.gpu) if view else None
    return of_board or next(reversed(found.values()), None)


def families_of(site: Site, view: BoardView) -> dict[str, str]:
    """Map the problems that count for the rank on a board to their families."""
    return {
        problem: family(site.problems[problem].level, site.problems[problem].name)
        for problem in ranked_problems(site, view)
    }


def family_lines(site: Site, view: BoardView) -> list[FamilyLine]:
    """Say who wins where, family by family, the largest first."""
    families = families_of(site, view)
    entries = {
        name: item for name, item in view.board.speedups.items() if view.names[name].standing.kind == "entry"
    }
    scored = by_family(entries, families)
    fastest = {problem: line.language for problem, line in view.fastest.items() if line.is_faster}
    wins = wins_by_language(fastest, families)
    lines = [
        _family_line(view, name, families, scored.get(name, {}), tuple(wins.get(name, ())))
        for name in FAMILIES
        if name in families.values()
    ]
    return sorted(lines, key=lambda line: -line.problems)


def _family_line(
    view: BoardView,
    name: str,
    families: Mapping[str, str],
    scored: Mapping[str, float],
    wins: tuple[tuple[str, int], ...],
) -> FamilyLine:
    ours = [problem for problem, found in families.items() if found == name]
    gaining = {entry: speedup for entry, speedup in scored.items() if speedup > 1}
    best = max(gaining, key=lambda entry: gaining[entry], default=None)
    return FamilyLine(
        name=name,
        problems=len(ours),
        unsolved=sum(problem not in view.fastest for problem in ours),
        best=None if best is None else view.names[best],
        deployed_speedup=None if best is None else gaining[best],
        wins=wins,
    )


def cost_chart(view: BoardView) -> CostChart | None:
    """Draw deployed speedup over cost, and who is as fast for less; None where no entry gives its cost."""
    lines = [line for line in view.entries if line.cost_usd and line.standing.kind == "entry"]
    if not lines:
        return None
    priced = [(float(line.cost_usd or 0), line.standing.overall.deployed_speedup) for line in lines]
    front = pareto(priced)
    low, high = min(cost for cost, _ in priced) / 1.5, max(cost for cost, _ in priced) * 1.5
    top = max(1.1, 1 + 1.12 * (max(speedup for _, speedup in priced) - 1))
    frame = charts.Frame(COST_SIZE, COST_MARGIN, (low, high), (1.0, top), log="x")
    steps = [(frame.x(cost), frame.y(speedup)) for cost, speedup in front]
    return CostChart(
        points=tuple(
            CostPoint(line=line, x=frame.x(cost), y=frame.y(speedup), is_front=(cost, speedup) in front)
            for line, (cost, speedup) in zip(lines, priced, strict=True)
        ),
        front=charts.steps_path(steps, COST_SIZE[0] - COST_MARGIN[2]),
        across=tuple(charts.Tick(frame.x(cost), numbers.dollars(cost)) for cost in charts.decades(low, high)),
        upward=tuple(charts.Tick(frame.y(value), f"{value:g}×") for value in charts.round_ticks(1.0, top)),
    )
