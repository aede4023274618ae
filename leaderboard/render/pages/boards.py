"""The board: the table of entries on one GPU, its curve, and the compact data that its script works on."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

from kernel_evaluator.records.keys import RANKED_LEVELS
from markupsafe import Markup

from leaderboard.render import places
from leaderboard.render.pages.answers import answer, cost_chart, family_lines
from leaderboard.render.parts import charts, numbers
from leaderboard.render.parts.lines import EntryLine, is_scored
from leaderboard.render.site import BoardView, Site
from leaderboard.stages.standings import REFERENCES, THRESHOLDS, Against, Reference, Scores, Standing

ROWS_IN_PAGE = 100
CURVES_IN_PAGE = 5
EMBEDDED = 5
WHISKER_WIDTH = 64.0
COLUMNS = (
    "deployed",
    "geomean",
    "n",
    "fast1",
    "fast1.5",
    "fast2",
    "near1",
    "near1.5",
    "near2",
    "correct",
    "problems",
    "general",
    "tried",
    "light",
)
"""The order of an entry's figures in the table's data; `site/assets/board.js` reads them by place."""
AGAINST_COLUMNS = ("deployed", "geomean", "fast1", "fast1.5", "fast2")
"""The order of its figures against another reference than eager PyTorch."""


@dataclass(frozen=True, kw_only=True)
class JudgedBy:
    """The evaluator (its digest) of most of a board's rows, and the entries that have rows by another."""

    digest: str
    others: tuple[EntryLine, ...]


def write_board(site: Site, view: BoardView) -> None:
    """Write a board's page, its table data, and for a large board the page that lists every entry."""
    shown = view.rows[:ROWS_IN_PAGE]
    whole, values = len(shown) == len(view.entries), board_values(site, view)
    for name in (places.board_page(view.name), *(["index.html"] if view is site.boards[0] else [])):
        site.page(name, "board.html", view=view, entries=shown, whole=whole, **values)
    if not whole:
        site.page(places.all_page(view.name), "all.html", view=view)
    ranked = [line for line in view.entries if line.standing.rank is not None]
    site.page(places.embed_page(view.name), "embed.html", view=view, entries=ranked[:EMBEDDED])
    site.folder.write_json(places.table_file(view.name), table_data(view))


def board_values(site: Site, view: BoardView) -> dict[str, Any]:
    """Compute what the board's template draws beside the records."""
    scale = _scale(view)
    levels = sorted({level for line in view.entries for level in line.standing.levels})
    return {
        "levels": levels,
        "ranked_levels": [level for level in levels if level in RANKED_LEVELS],
        "scale": scale,
        "curves": [curve(view, line) for line in chosen(view)],
        "ticks": charts.curve_ticks(),
        "answer": answer(site, view),
        "dataset": dataset(site, view),
        "citation": citation(site, view),
        "families": family_lines(site, view),
        "cost": cost_chart(view),
        "references": [name for name in REFERENCES if name == "eager" or name in view.board.references],
        "judged_by": judged_by(site, view),
        "origins": [name for name in ("model", "scaffold") if len(_stated(view, name)) > 1],
    }


def _stated(view: BoardView, name: str) -> set[str]:
    """Give the models or scaffolds to choose from; entries that name none count as one."""
    return {getattr(line, name) for line in view.entries if line.standing.kind == "entry"}


def judged_by(site: Site, view: BoardView) -> JudgedBy | None:
    """Say by which evaluator a board's figures are, and of which entries not all are; None without rows."""
    judged = site.data.evaluators
    rows = [(line, judged.get((view.name, line.standing.entry), Counter[str]())) for line in view.entries]
    counts = sum((each for _, each in rows), Counter[str]())
    if not counts:
        return None
    digest = counts.most_common(1)[0][0]
    return JudgedBy(digest=digest, others=tuple(line for line, each in rows if set(each) - {digest}))


def dataset(site: Site, view: BoardView) -> Markup:
    """Describe the board's data in the words of schema.org, as JSON that no text can end early."""
    base = site.data.config.base_url
    repository = numbers.safe_url(site.data.config.repository)
    files = (
        (base + places.board_api(view.name), "application/json"),
        (base + places.standings_csv(view.name), "text/csv"),
        (base + places.rows_csv(view.name), "application/gzip"),
        *([(f"{repository.rstrip('/')}/releases", "application/vnd.apache.parquet")] if repository else []),
    )
    described = {
        "@context": "https://schema.org",
        "@type": "Dataset",
        "name": f"{site.data.config.title}: {view.title}",
        "description": "Verdicts and times of GPU kernels written by language models, on the problems of "
        f"KernelBench, on {view.board.gpu} in {view.board.precision}. Speedups are over eager PyTorch.",
        "url": base + places.board_page(view.name),
        "license": "https://opensource.org/licenses/MIT",
        "isAccessibleForFree": True,
        "creator": {"@type": "Organization", "name": "The KernelBench Leaderboard authors"},
        "dateModified": numbers.date(view.updated),
        "measurementTechnique": base + "method.html",
        "variableMeasured": [
            "deployed speedup",
            "geomean speedup",
            "fast@p",
            "correct rate",
            "share of light speed",
        ],
        "distribution": [
            {"@type": "DataDownload", "contentUrl": address, "encodingFormat": kind}
            for address, kind in files
        ],
    }
    text = json.dumps(described, ensure_ascii=True)
    return Markup(text.replace("<", "\\u003c").replace("&", "\\u0026"))  # noqa: S704


def citation(site: Site, view: BoardView) -> str:
    """Write a BibTeX record of the board as it stands today."""
    day = numbers.date(view.updated)
    return (
        f"@misc{{kernelbench-leaderboard-{places.slug(view.name).lower()}-{day},\n"
        f"  title = {{{{{site.data.config.title}: {view.title}}}}},\n"
        "  author = {{The KernelBench Leaderboard authors}},\n"
        f"  year = {{{day[:4]}}},\n"
        f"  note = {{Board of {view.title}, {view.size}, as of {day}}},\n"
        f"  howpublished = {{\\url{{{site.data.config.base_url}{places.board_page(view.name)}}}}}\n}}"
    )


def chosen(view: BoardView) -> list[EntryLine]:
    """Give the entries whose curves the page draws: the best ranked, else the first."""
    ranked = [line for line in view.entries if line.standing.rank is not None]
    return (ranked or view.entries)[:CURVES_IN_PAGE]


def curve(view: BoardView, line: EntryLine) -> charts.Line:
    """Draw one entry's share of problems with speedup >= p, over those that count for the rank."""
    speedups = [
        kernel.speedup
        for kernel in view.by_entry[line.standing.entry]
        if kernel.is_correct and kernel.speedup and is_scored(kernel.key, view.board.unranked_problems)
    ]
    return charts.Line(line.name, line.page, charts.curve_path(speedups, line.standing.overall.problems))


def table_data(view: BoardView) -> dict[str, Any]:
    """Give every entry's figures, overall and by level, in the order of `columns`."""
    return {
        "board": view.name,
        "columns": COLUMNS,
        "against": AGAINST_COLUMNS,
        "entries": [_table_entry(view, line) for line in view.rows],
    }


def _table_entry(view: BoardView, line: EntryLine) -> dict[str, Any]:
    standing = line.standing
    languages = Counter(kernel.language for kernel in view.by_entry[standing.entry] if kernel.language)
    return {
        "id": standing.entry,
        "name": line.name,
        "org": line.organization,
        "kind": standing.kind,
        "rank": line.rank,
        "why": standing.unranked_because,
        "date": line.date,
        "origin": line.origin,
        "model": line.model,
        "scaffold": line.scaffold,
        "cost": line.cost_usd,
        "languages": [name for name, _ in languages.most_common()],
        "ci": [numbers.rounded(bound) for bound in standing.deployed_ci95],
        "all": _figures(standing.overall),
        **{f"l{level}": _figures(scores) for level, scores in sorted(standing.levels.items())},
        "vs": {name: _against(standing, name) for name in standing.against},
    }


def _against(standing: Standing, name: Reference) -> dict[str, Any]:
    item = standing.against[name]
    return {
        "ci": [numbers.rounded(bound) for bound in item.ci95 or ()],
        "all": _against_figures(item),
        **{f"l{level}": _against_figures(found) for level, found in standing.levels_against[name].items()},
    }


def _against_figures(item: Against) -> list[float | None]:
    speeds = numbers.rounded(item.deployed_speedup), numbers.rounded(item.geomean_speedup)
    return [*speeds, *(numbers.rounded(item.fast[p]) for p in THRESHOLDS)]


def _figures(scores: Scores) -> list[float | int | None]:
    return [
        numbers.rounded(scores.deployed_speedup),
        numbers.rounded(scores.geomean_speedup),
        scores.geomean_n,
        *(numbers.rounded(scores.fast[p]) for p in THRESHOLDS),
        *(scores.straddling[p] for p in THRESHOLDS),
        scores.correct,
        scores.problems,
        scores.general,
        scores.tried_elsewhere,
        numbers.rounded(scores.light_share),
    ]


def _scale(view: BoardView) -> charts.Scale:
    standings: list[Standing] = [line.standing for line in view.entries]
    return charts.Scale([1.0, *(bound for item in standings for bound in item.deployed_ci95)], WHISKER_WIDTH)
