"""Names all that a page is made from, so that a build can leave it as it is where none of it changed."""

from __future__ import annotations

from kernel_evaluator.records.version import evaluator_sha256

from leaderboard.render.pages.history import past
from leaderboard.render.pages.problems import results
from leaderboard.render.site import Site
from leaderboard.render.stamp import code_stamp, digest


def site_stamp(site: Site) -> str:
    """Name what every page hangs on: templates, the code that renders, the settings, the boards there are."""
    data = site.data
    return digest(
        code_stamp(),
        data.config.title,
        data.config.base_url,
        data.config.repository,
        evaluator_sha256(),
        [
            (view.name, view.title, view.measured_with, sorted(view.board.unranked_problems))
            for view in site.boards
        ],
        data.published,
        [(problem, item.sha256) for problem, item in site.problems.items()],
    )


def entry_key(site: Site, name: str) -> str:
    """Name what the pages and files of one entry are made from."""
    parts: list[object] = [site.data.kernels.digest(name)]
    for view in site.boards:
        line = view.names.get(name)
        if line is not None:
            standing = line.standing
            place = view.name, name
            parts += [view.name, site.data.digests.get(place, ""), line.rank, line.sharing]
            parts += [standing.deployed_ci95, standing.unranked_because, standing.against]
            parts += [list(site.data.history.get(place, ())), view.is_large]
    return digest(*parts)


def problem_key(site: Site, problem: str) -> str:
    """Name what the page and files of one problem are made from."""
    parts: list[object] = [problem in site.data.certified, site.data.deals.get(problem)]
    for view in site.boards:
        found = results(site, view, problem)
        parts += [view.name, len(found.lines), found.correct, found.baseline, found.unranked_because]
        parts += [(line, view.names[line.entry].name) for line in found.kept]
        parts += [line.kernel_sha256 for line in found.code]
        records = past(site, view).by_problem.get(problem, ())
        parts += [(record.at, record.line.entry, record.line.speedup) for record in records]
    return digest(*parts)
