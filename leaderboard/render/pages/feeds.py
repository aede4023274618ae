"""Small files for programs and other sites: the news feed, badges, robots' map and the index of the data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from leaderboard.render import places
from leaderboard.render.pages.answers import counts
from leaderboard.render.pages.entries import standing_data
from leaderboard.render.pages.problems import roof_data
from leaderboard.render.parts import numbers
from leaderboard.render.parts.csvs import as_csv, packed_header
from leaderboard.render.parts.lines import EntryLine
from leaderboard.render.site import BoardView, Site, problem_title
from leaderboard.stages.categories import family
from leaderboard.stages.standings import THRESHOLDS, Reference, Standing
from leaderboard.texts.inert import cell

FEED_LENGTH = 50
MOST_IN_SITEMAP = 50_000
"""What the protocol of sitemaps allows in one file."""
_SIGN_WIDTH = 6.6


def write_feeds(site: Site) -> None:
    """Write the feed, the schemas, and the index and standings of every board."""
    newest = sorted(
        ((line.standing.result.finished_at, view, line) for view in site.boards for line in view.entries),
        key=lambda item: item[0],
        reverse=True,
    )[:FEED_LENGTH]
    site.page(
        "feed.xml", "feed.xml", newest=newest, updated=newest[0][0] if newest else "1970-01-01T00:00:00Z"
    )
    write_for_machines(site)
    for name, body in site.data.schemas.items():
        site.folder.write(f"schemas/{name}", body)
    site.folder.write_json(f"{places.API}/index.json", index_data(site))


def write_for_machines(site: Site) -> None:
    """Write what search engines read: robots.txt, and the list of pages where the site knows its address."""
    base = site.data.config.base_url
    lines = ["User-agent: *", "Allow: /", *([f"Sitemap: {base}sitemap.xml"] if base else [])]
    site.folder.write("robots.txt", "\n".join(lines) + "\n")
    if base:
        site.page("sitemap.xml", "sitemap.xml", pages=sorted(_pages(site))[:MOST_IN_SITEMAP])


def _pages(site: Site) -> Iterator[str]:
    yield from ("index.html", "compare.html", "method.html", "submit.html", "trust.html", "about.html")
    yield from (places.problem_page(problem) for problem in site.problems)
    for view in site.boards:
        yield from (places.board_page(view.name), places.problems_page(view.name, site.boards[0].name))
        yield from (places.matrix_page(view.name), places.records_page(view.name))
        yield from (line.page for line in view.entries)


def write_board_data(site: Site, view: BoardView) -> None:
    """Write a board's standings as JSON and CSV, and every kernel of it as CSV."""
    site.folder.write_json(places.board_api(view.name), board_data(view))
    references = {
        reference: {problem: numbers.rounded(value) for problem, value in factors.items()}
        for reference, factors in view.references.items()
    }
    site.folder.write_json(
        places.references_api(view.name),
        {"schema_version": 1, "board": view.name, "references": references},
    )
    site.folder.write_json(places.problems_api(view.name), problems_data(site, view))
    site.folder.write(places.standings_csv(view.name), board_csv(view))
    site.folder.write(places.rows_csv(view.name), rows_csv(site, view))


def index_data(site: Site) -> dict[str, Any]:
    """Say where a program finds what: addresses are relative to the site's root."""
    return {
        "schema_version": 1,
        "title": site.data.config.title,
        "schemas": [f"schemas/{name}" for name in sorted(site.data.schemas)],
        "boards": [
            {
                "name": view.name,
                "gpu": view.board.gpu,
                "precision": view.board.precision,
                "sizes": view.board.sizes,
                "entries": len(view.entries),
                "standings": places.board_api(view.name),
                "standings_csv": places.standings_csv(view.name),
                "references": places.references_api(view.name),
                "problems": places.problems_api(view.name),
                "records": places.records_api(view.name),
                "rows_csv": places.rows_csv(view.name),
                "entry": f"{places.API}/entries/{places.slug(view.name)}/{{entry}}.json.gz",
                "result": None
                if view.is_large
                else f"{places.API}/results/{places.slug(view.name)}/{{entry}}.json.gz",
                "problem": f"{places.API}/problems/{places.slug(view.name)}/{{problem}}.json",
            }
            for view in site.boards
        ],
        "kernels": "kernels/{problem}/{int(kernel_sha256[:2], 16) * shards // 256}.json.gz",
    }


def problems_data(site: Site, view: BoardView) -> dict[str, Any]:
    """Say what each problem is, and its roofline on a board, as JSON."""
    return {
        "schema_version": 1,
        "board": view.name,
        "problems": {
            problem: {
                "name": item.name,
                "title": problem_title(item.name),
                "family": family(item.level, item.name),
                "ranked": counts(view, problem),
                "roofline": roof_data(view.roofs[problem]) if problem in view.roofs else None,
            }
            for problem, item in site.problems.items()
        },
    }


def board_data(view: BoardView) -> dict[str, Any]:
    """Give a board's standings as JSON."""
    return {
        "schema_version": 1,
        "board": view.name,
        "gpu": view.board.gpu,
        "precision": view.board.precision,
        "sizes": view.board.sizes,
        "unranked_problems": dict(view.board.unranked_problems),
        "standings": [{"entry": line.standing.entry, **standing_data(line)} for line in view.entries],
    }


def board_csv(view: BoardView) -> str:
    """Give a board's standings as CSV, one line an entry."""
    header = [
        "rank",
        "entry",
        "display_name",
        "organization",
        "kind",
        "model",
        "scaffold",
        "cost_usd",
        "tokens",
        "deployed_speedup",
        "deployed_low",
        "deployed_high",
        "over_compile",
        "over_best",
        "light_share",
        "geomean_speedup",
        "geomean_n",
        *(f"fast@{p:g}" for p in THRESHOLDS),
        "correct",
        "compiled",
        "submitted",
        "problems",
        "finished_at",
    ]
    return as_csv([header, *(_board_row(line) for line in view.entries)])


def rows_csv(site: Site, view: BoardView) -> bytes:
    """Give every kernel of a board as CSV, one line a kernel, packed."""
    return packed_header() + b"".join(site.data.packed[view.name, entry] for entry in view.by_entry)


def write_badge(site: Site, view: BoardView, line: EntryLine) -> None:
    """Write the entry's badge: its rank and deployed speedup on the board."""
    left = f"KernelBench {view.title}"
    rank = f"#{line.rank} · " if line.standing.rank is not None else ""
    right = rank + numbers.speedup(line.standing.overall.deployed_speedup)
    widths = [round(_SIGN_WIDTH * len(text) + 14) for text in (left, right)]
    site.page(
        places.badge(view.name, line.standing.entry), "badge.svg", left=left, right=right, widths=widths
    )


def _board_row(line: EntryLine) -> list[Any]:
    standing, scores = line.standing, line.standing.overall
    return [
        "" if standing.rank is None else standing.rank,
        standing.entry,
        cell(line.name),
        cell(line.organization),
        standing.kind,
        cell(line.model),
        cell(line.scaffold),
        "" if line.cost_usd is None else line.cost_usd,
        "" if line.tokens is None else line.tokens,
        scores.deployed_speedup,
        *(numbers.rounded(bound) for bound in standing.deployed_ci95),
        *(_over(standing, reference) for reference in ("compile", "best")),
        "" if scores.light_share is None else scores.light_share,
        scores.geomean_speedup,
        scores.geomean_n,
        *(scores.fast[p] for p in THRESHOLDS),
        scores.correct,
        scores.compiled,
        scores.submitted,
        scores.problems,
        standing.result.finished_at,
    ]


def _over(standing: Standing, reference: Reference) -> float | str:
    held = standing.against.get(reference)
    return "" if held is None else held.deployed_speedup
