"""Comparisons that can be shown elsewhere: a page and a picture for each pair of a board's best entries."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from leaderboard.render import places
from leaderboard.render.pages.answers import counts
from leaderboard.render.pages.pictures import write_comparison_picture
from leaderboard.render.parts.lines import EntryLine, KernelLine
from leaderboard.render.site import BoardView, Site

PAIRED = 4
"""So many of a board's best entries are compared with each other on pages of their own."""

PairOutcome = Literal["a", "b", "tie", "only a", "only b", "a did not send", "b did not send", "neither"]


@dataclass(frozen=True, kw_only=True)
class Versus:
    """Two entries of a board, on what ranks. `ratio` is a's speedup over b's on what both solve."""

    view: BoardView
    a: EntryLine
    b: EntryLine
    counts: Counter[PairOutcome]
    ratio: float | None

    @property
    def both(self) -> int:
        """Ranked problems that both solve."""
        return self.counts["a"] + self.counts["b"] + self.counts["tie"]

    @property
    def page(self) -> str:
        """Where the comparison lies."""
        return places.versus_page(self.view.name, self.a.standing.entry, self.b.standing.entry)

    @property
    def picture(self) -> str:
        """Where its picture lies."""
        return places.versus_picture(self.view.name, self.a.standing.entry, self.b.standing.entry)

    @property
    def date(self) -> str:
        """The day of the later evaluation."""
        return max(self.a.date, self.b.date)


def pairs(view: BoardView) -> Iterator[Versus]:
    """Compare the best entries of a board with each other, the first two first."""
    entries = [line for line in view.entries if line.standing.kind != "baseline"][:PAIRED]
    yield from (versus(view, a, b) for a, b in combinations(entries, 2))


def versus(view: BoardView, a: EntryLine, b: EntryLine) -> Versus:
    """Compare two entries; `site/assets/compare.js` does the same."""
    left, right = (
        {
            line.problem: line
            for line in view.by_entry[side.standing.entry]
            if line.sample == 0 and counts(view, line.problem)
        }
        for side in (a, b)
    )
    outcomes: Counter[PairOutcome] = Counter()
    logs = []
    for problem in left.keys() | right.keys():
        ours, theirs = left.get(problem), right.get(problem)
        found = outcome(ours, theirs)
        outcomes[found] += 1
        if found in ("a", "b", "tie") and ours and theirs:
            logs.append(math.log((ours.speedup or 1.0) / (theirs.speedup or 1.0)))
    ratio = math.exp(math.fsum(logs) / len(logs)) if logs else None
    return Versus(view=view, a=a, b=b, counts=outcomes, ratio=ratio)


def outcome(a: KernelLine | None, b: KernelLine | None) -> PairOutcome:
    """Say what came of one problem. A win needs two correct kernels whose intervals do not meet."""
    is_a, is_b = (line is not None and line.is_correct and bool(line.speedup) for line in (a, b))
    if not is_a and not is_b:
        return "neither"
    if a is None or b is None:
        return "a did not send" if a is None else "b did not send"
    if not is_a or not is_b:
        return "only a" if is_a else "only b"
    (low_a, high_a), (low_b, high_b) = (line.interval or (0.0, math.inf) for line in (a, b))
    return "a" if low_a > high_b else "b" if low_b > high_a else "tie"


def write_comparisons(site: Site) -> None:
    """Write the page that compares anything, and a page and a picture for each pair of the best."""
    found = {view.name: list(pairs(view)) for view in site.boards}
    site.page("compare.html", "compare.html", pairs=found)
    for item in (item for some in found.values() for item in some):
        site.page(item.page, "versus.html", item=item)
        write_comparison_picture(
            site,
            item.view,
            (item.a, item.b),
            wins=(item.counts["a"], item.counts["b"]),
            ties=item.counts["tie"],
            ratio=item.ratio,
        )
