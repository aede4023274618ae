"""Builds the site: prepares what is shown, shares the work among processes, removes what is stale."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leaderboard.render import places
from leaderboard.render.model import BuildReport, SiteData
from leaderboard.render.output import SiteFolder, claim, read_state, write_state
from leaderboard.render.pages import entries, explained, feeds, history, pictures, problems
from leaderboard.render.pages.boards import write_board
from leaderboard.render.parts import kernels
from leaderboard.render.site import Site
from leaderboard.render.workers import spread, without_collection
from leaderboard.resources import SITE

PROBLEMS_A_TASK = 5
ENTRIES_A_TASK = 10

Sources = dict[tuple[str, str], str]
"""Kernels that problem pages show: (entry, key) to source."""


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """What tasks share: the site, what the last build noted of each entry, which sources are to be shown."""

    site: Site
    noted: Mapping[str, Any]
    wanted: Mapping[str, Mapping[str, list[str]]]


_building: list[_Plan] = []
"""The plan that forked workers inherit: it is too large to send to each."""


def build_site(data: SiteData, out: Path) -> BuildReport:
    """Build the whole site into `out`; unchanged files are not written again, stale ones are removed.

    Raises OccupiedError where `out` holds something else.
    """
    began = time.monotonic()
    claim(out)
    folder = SiteFolder(out)
    with without_collection():
        site = Site(data, folder)
        noted = read_state(out).get("kernels", {})
        write_state(out, {})  # of a build that is interrupted, no note holds
        state = _write_all(site, noted if isinstance(noted, dict) else {})
    _copy_assets(folder)
    removed = folder.remove_stale()
    write_state(out, {"kernels": state})
    return BuildReport(
        written=folder.written,
        unchanged=folder.unchanged,
        removed=removed,
        files=len(folder.kept),
        size_bytes=folder.size_bytes(),
        seconds=time.monotonic() - began,
    )


def _write_all(site: Site, noted: dict[str, Any]) -> dict[str, Any]:
    names = sorted({line.standing.entry for view in site.boards for line in view.entries})
    for view in site.boards:
        _ = view.by_problem  # computed here once, not in every worker
    listed = list(site.problems)
    plan = _Plan(site=site, noted=noted, wanted=problems.wanted_sources(site, listed))
    state: dict[str, Any] = {}
    sources: Sources = {}
    boards = [(_board_task, at) for at in range(len(site.boards))]
    entries = [(_entries_task, some) for some in _batches(names, ENTRIES_A_TASK)]
    for made in _spread(plan, [*boards, *entries]):
        if made is not None:  # a board's task hands nothing back
            state.update(made[0])
            sources.update(made[1])
    shown = _by_problem(plan.wanted, sources)
    batches = ({name: shown.get(name, {}) for name in some} for some in _batches(listed, PROBLEMS_A_TASK))
    for _ in _spread(plan, [(_common_task, None), *((_problems_task, batch) for batch in batches)]):
        pass
    return state


def _batches(names: list[str], size: int) -> list[list[str]]:
    return [names[at : at + size] for at in range(0, len(names), size)]


def _spread(plan: _Plan, tasks: Sequence[tuple[Callable[..., Any], Any]]) -> Iterator[Any]:
    """Run tasks, in forked processes where that pays and works; merge what they wrote."""
    folder = plan.site.folder
    _building[:] = [plan]
    for written, made in spread(_run, tasks, jobs=plan.site.data.config.jobs):
        folder.merge(written)
        yield made
    plan.site.folder = folder


def _run(task: tuple[Callable[[_Plan, Any], Any], Any]) -> tuple[SiteFolder, Any]:
    work, argument = task
    (plan,) = _building
    plan.site.folder = SiteFolder(plan.site.folder.root)
    made = work(plan, argument)
    return plan.site.folder, made


def _board_task(plan: _Plan, at: int) -> None:
    """Write what belongs to one board as a whole."""
    view = plan.site.boards[at]
    write_board(plan.site, view)
    history.write_matrix(plan.site, view)
    history.write_records(plan.site, view)
    feeds.write_board_data(plan.site, view)


def _common_task(plan: _Plan, _: None) -> None:
    """Write what belongs to no board."""
    problems.write_problem_list(plan.site)
    feeds.write_feeds(plan.site)
    explained.write_pages(plan.site)
    pictures.write_site_picture(plan.site)


def _entries_task(plan: _Plan, names: list[str]) -> tuple[dict[str, Any], Sources]:
    """Write the pages and kernels of some entries; hand back the sources that problem pages show."""
    site = plan.site
    state: dict[str, Any] = {}
    sources: Sources = {}
    for name in names:
        for view in site.boards:
            line = view.names.get(name)
            if line is not None:
                entries.write_entry(site, view, line)
                feeds.write_badge(site, view, line)
                pictures.write_picture(site, view, line)
                raw = site.data.kernels.result(view.name, name)
                site.folder.write(places.raw_result(view.name, name), kernels.compressed(raw))
        keys = [key for found in plan.wanted.get(name, {}).values() for key in found]
        state[name], found = _entry_kernels(site, name, plan.noted.get(name), keys)
        sources.update(found)
    return state, sources


def _entry_kernels(site: Site, name: str, noted: Any, keys: list[str]) -> tuple[dict[str, Any], Sources]:
    """Write an entry's kernels unless the last build did; read its sources only where they are needed."""
    digest = site.data.kernels.digest(name)
    same = isinstance(noted, dict) and noted.get("digest") == digest
    kept = same and _keep_all(site.folder, noted["files"])
    if kept and not keys:
        return noted, {}
    loaded = site.data.kernels.load(name)
    files = noted["files"] if kept else kernels.write_kernels(site.folder, name, loaded)
    found = {(name, key): loaded[key] for key in keys if key in loaded}
    return {"digest": digest, "files": files}, found


def _keep_all(folder: SiteFolder, names: list[str]) -> bool:
    kept = [folder.keep(name) for name in names]  # every one is kept, even where another is missing
    return all(kept)


def _problems_task(plan: _Plan, batch: dict[str, Sources]) -> None:
    for problem, sources in batch.items():
        problems.write_problem(plan.site, problem, sources)


def _by_problem(wanted: Mapping[str, Mapping[str, list[str]]], sources: Sources) -> dict[str, Sources]:
    found: dict[str, Sources] = {}
    for entry, by_problem in wanted.items():
        for problem, keys in by_problem.items():
            for key in keys:
                if (entry, key) in sources:
                    found.setdefault(problem, {})[entry, key] = sources[entry, key]
    return found


def _copy_assets(folder: SiteFolder) -> None:
    for path in sorted((SITE / "assets").rglob("*")):
        if path.is_file():
            folder.write(f"assets/{path.relative_to(SITE / 'assets').as_posix()}", path.read_bytes())


def default_jobs() -> int:
    """How many processes to build with: at most the cores that this process may use."""
    return max(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1, 1)
