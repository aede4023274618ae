"""Names all that a page is made from, so that a build can leave it as it is where none of it changed."""

from __future__ import annotations

from collections.abc import Collection

from leaderboard.render.pages.history import past
from leaderboard.render.pages.problems import kept_code, results
from leaderboard.render.site import BoardView, Site
from leaderboard.render.stamp import code_stamp, digest


def site_stamp(site: Site) -> str:
    """Name what every page hangs on: templates, the code that renders, the settings, the boards there are."""
    data = site.data
    return digest(
        code_stamp(),
        data.config.title,
        data.config.base_url,
        data.config.repository,
        data.present,
        [
            (
                view.name,
                view.title,
                view.measured_with,
                sorted(view.board.unranked_problems),
                sorted(view.board.references),
            )
            for view in site.boards
        ],
        data.published,
        [(problem, item.sha256) for problem, item in site.problems.items()],
    )


def entry_key(site: Site, name: str) -> str:
    """Name what the pages and files of one entry are made from."""
    parts: list[object] = [site.data.files.digest(name)]
    parts += [notice for notice in site.data.notices if notice.entry == name]
    for view in site.boards:
        line = view.names.get(name)
        if line is not None:
            standing = line.standing
            place = view.name, name
            parts += [view.name, site.data.digests.get(place, ""), site.data.packed[place]]
            parts += [line.rank, line.sharing]
            parts += [standing.deployed_ci95, standing.unranked_because, standing.against]
            parts += [list(site.data.history.get(place, ())), view.is_large]
    return digest(*parts)


def problem_key(site: Site, problem: str, code: str) -> str:
    """Name what the page and files of one problem are made from; `code` is the `code_key` of its code."""
    parts: list[object] = [page_key(site, problem, ())]
    for view in site.boards:
        entries = _entries(site, view)
        parts.append([entries[line.entry] for line in results(site, view, problem).kept])
    return digest(*parts, code)


def page_key(site: Site, problem: str, held: Collection[str]) -> str:
    """Name what the page of one problem is made from, where code of these digests lies with the site.

    Lines come from entries' results.
    """
    deals = [found.get(problem) for found in site.data.deals.values()]
    parts: list[object] = [problem in site.data.certified, deals, len(held)]
    for view in site.boards:
        found, entries = results(site, view, problem), _entries(site, view)
        parts += [view.name, len(found.lines), found.correct, found.baseline, found.unranked_because]
        lines = (found.best_sent, found.best_of_pytorch, *found.shown)
        parts += [line and entries[line.entry] for line in lines]
        parts += [line.kernel_sha256 in held for line in found.plain]
        records = past(site, view).by_problem.get(problem, ())
        parts += [(record.at, record.line.entry, record.line.speedup) for record in records]
    return digest(*parts)


def code_key(site: Site, problem: str) -> str:
    """Name the code that the site keeps of one problem."""
    plain = [line.kernel_sha256 for view in site.boards for line in results(site, view, problem).plain]
    return digest(sorted(kept_code(site, problem)), plain)


def _entries(site: Site, view: BoardView) -> dict[str, str]:
    """Name what lines of each entry are made from; worked out once."""
    known: dict[str, dict[str, str]] = site.remembered.setdefault("entries of boards", {})
    if view.name not in known:
        data = site.data
        known[view.name] = {
            name: digest(name, line.name, data.files.digest(name), data.digests.get((view.name, name), ""))
            for name, line in view.names.items()
        }
    return known[view.name]
