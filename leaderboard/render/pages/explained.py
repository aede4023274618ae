"""The pages that explain and those that are tools: method, submit, trust, about, compare, not found."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from kernel_evaluator.scores import ELSEWHERE_SHARE

from leaderboard.files.ledger import Spending
from leaderboard.render.model import Revision
from leaderboard.render.pages.answers import rates_of
from leaderboard.render.pages.entries import history
from leaderboard.render.parts.lines import STATUS_WORDS, EntryLine
from leaderboard.render.site import BoardView, Site

LABELS = {
    "custom": "Nearly all of the GPU's time goes to kernels that the submission brought.",
    "mixed": "Own kernels and library calls both take a good part of the time.",
    "library": "The work is done by PyTorch or a vendor's library, called in another way.",
    "compiled": "torch.compile made a good part of the kernels that ran.",
    "no-kernel": "A call launched no kernel.",
    "blunt": "Low precision, or another cheaper way, passes on all inputs of this problem: none tells it.",
    "general": "Right on secret inputs of other shapes and strides too, where the problem allows these.",
    "fixed-shape": "Inputs of other shapes or strides are refused with an error, or some of them are.",
    "wrong-elsewhere": "Wrong without a word on inputs of other shapes or strides, or dead, or too slow.",
    "deferred-work": "Work was put off until the output was asked for; every call is charged with it.",
}

AUDITS, AGAIN = 50, 30
"""So many audits, and evaluations that came after others, stand on the page; the repository has all."""

STATUS_MEANINGS = {
    "correct": "Every trial agreed with the reference within the tolerance, and the timed outputs did too.",
    "mismatch": "The output differs from the reference's: in a value, a shape, a type or a device.",
    "fragile": "Right on the problem's own inputs, wrong on others or with other weights: a failed kernel.",
    "compile_error": "The source does not parse, import or compile.",
    "runtime_error": "The kernel raised an error or crashed while it ran.",
    "timeout": "It did not finish in the time that a kernel may take.",
    "out_of_memory": "It asked for more memory than it may have.",
    "rejected": "It answered otherwise when it was timed, or broke a rule; the row carries the evidence.",
    "quarantined": "The clocks disagree, or something else needs a person's look; it does not count.",
    "infra_error": "Our machinery failed. It is evaluated again; the entry is not ranked until then.",
}


def _months(spending: Iterable[Spending]) -> list[tuple[str, int, float]]:
    """Sum what was spent: month, evaluations and dollars, newest first."""
    found: dict[str, list[float]] = defaultdict(list)
    for item in spending:
        found[item.month].append(item.usd)
    return [(month, len(items), sum(items)) for month, items in sorted(found.items(), reverse=True)]


@dataclass(frozen=True, kw_only=True)
class Again:
    """An evaluation that came after another one of the same entry: when, why, the score before and after."""

    view: BoardView
    line: EntryLine
    now: Revision
    before: Revision


def judged_again(site: Site) -> list[Again]:
    """Give what entries got when they were evaluated anew, the latest first."""
    found = [
        Again(view=view, line=line, now=now, before=before)
        for view in site.boards
        for line in view.entries
        for now, before in pairwise(history(site, view, line))
    ]
    return sorted(found, key=lambda item: item.now.finished_at, reverse=True)


def unranked(views: Sequence[BoardView]) -> list[tuple[tuple[str, ...], dict[str, str]]]:
    """Give the problems that do not rank, with the reason, by the boards that leave them out.

    Those that no board ranks come first, and name none.
    """
    found: dict[tuple[str, ...], dict[str, str]] = defaultdict(dict)
    for problem in dict.fromkeys(name for view in views for name in view.board.unranked_problems):
        there = [view for view in views if problem in view.board.unranked_problems]
        titles = tuple(view.title for view in there) if len(there) < len(views) else ()
        found[titles][problem] = there[0].board.unranked_problems[problem]
    return sorted(found.items())


def write_pages(site: Site) -> None:
    """Write the pages that hold no results of their own."""
    rejected = [
        (view, view.names[line.entry], line)
        for view in site.boards
        for lines in view.by_entry.values()
        for line in lines
        if line.status in ("rejected", "quarantined")
    ]
    meanings = {status: (STATUS_WORDS[status], STATUS_MEANINGS[status.value]) for status in STATUS_WORDS}
    site.page("method.html", "method.html", labels=LABELS, meanings=meanings, wider=ELSEWHERE_SHARE)
    site.page(
        "trust.html",
        "trust.html",
        certified=site.data.certified,
        problems=site.problems,
        unranked=unranked(site.boards),
        rejected=rejected[:100],
        rejections=len(rejected),
        notices=site.data.notices,
        months=_months(site.data.spending),
        rates=site.data.rates,
        told=rates_of(site, next(iter(site.boards), None)),
        audits=site.data.audits[:AUDITS],
        views={view.name: view for view in site.boards},
        again=judged_again(site)[:AGAIN],
        stays_open=site.data.stays_open,
        statuses_by_value={status.value: words for status, words in STATUS_WORDS.items()},
        present=site.data.present,
    )
    for name in ("submit", "about", "404"):
        site.page(f"{name}.html", f"{name}.html")
    if not site.boards:
        site.page("index.html", "empty.html")
