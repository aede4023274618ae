"""Builds the site: prepares what is shown, shares the work among processes, removes what is stale."""

from __future__ import annotations

import gc
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from leaderboard.render import entries, feeds, history, kernels, pages, pictures, places, problems
from leaderboard.render.boards import write_board
from leaderboard.render.model import BuildReport, SiteData
from leaderboard.render.output import SiteFolder, read_state, write_state
from leaderboard.render.site import SITE_ROOT, Site

PROBLEMS_A_TASK = 15
ENTRIES_A_TASK = 20

_building: list[Site] = []
"""The site that forked workers inherit: it is too large to send to each."""


def build_site(data: SiteData, out: Path) -> BuildReport:
    """Build the whole site into `out`; unchanged files are not written again, stale ones are removed."""
    began = time.monotonic()
    folder = SiteFolder(out)
    out.mkdir(parents=True, exist_ok=True)
    site = Site(data, folder)
    noted = read_state(out).get("kernels", {})
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
    wanted = problems.wanted_sources(site, list(site.problems))
    tasks = [(names[at : at + ENTRIES_A_TASK], noted, wanted) for at in range(0, len(names), ENTRIES_A_TASK)]
    state: dict[str, Any] = {}
    sources: dict[tuple[str, str], str] = {}
    for done, found in _spread(site, _entries_task, tasks):
        state.update(done)
        sources.update(found)
    shown = _by_problem(wanted, sources)
    listed = list(site.problems)
    batches = [listed[at : at + PROBLEMS_A_TASK] for at in range(0, len(listed), PROBLEMS_A_TASK)]
    work = [
        *((_shared_task, (at,)) for at in range(len(site.boards) + 1)),
        *((_problems_task, (batch, {name: shown.get(name, {}) for name in batch})) for batch in batches),
    ]
    for _ in _spread(site, _any_task, work):
        pass
    return state


def _any_task(task: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    task(*arguments)


def _shared_task(at: int) -> None:
    """Write what belongs to one board as a whole; after the last board, what belongs to none."""
    site = _building[0]
    if at < len(site.boards):
        view = site.boards[at]
        write_board(site, view)
        history.write_matrix(site, view)
        history.write_records(site, view)
        feeds.write_board_data(site, view)
        return
    problems.write_problem_list(site)
    feeds.write_feeds(site)
    pages.write_pages(site)
    pictures.write_site_picture(site)


def _spread(site: Site, work: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]) -> Iterable[Any]:
    """Run tasks in forked processes where that pays and works, else here; merge what they wrote."""
    jobs = min(site.data.config.jobs, len(tasks))
    _building[:] = [site]
    if jobs < 2 or sys.platform != "linux":
        for task in tasks:
            yield work(*task)
        return
    gc.collect()
    gc.freeze()
    with multiprocessing.get_context("fork").Pool(jobs, initializer=gc.disable) as pool:
        for folder, result in pool.imap(_run, [(work, task) for task in tasks]):
            site.folder.merge(folder)
            yield result
    gc.unfreeze()


def _run(task: tuple[Callable[..., Any], tuple[Any, ...]]) -> tuple[SiteFolder, Any]:
    work, arguments = task
    site = _building[0]
    site.folder = SiteFolder(site.folder.root)
    result = work(*arguments)
    return site.folder, result


def _entries_task(
    names: list[str], noted: dict[str, Any], wanted: dict[str, dict[str, list[str]]]
) -> tuple[dict[str, Any], dict[tuple[str, str], str]]:
    """Write the pages and kernels of some entries; hand back the sources that problem pages show."""
    site = _building[0]
    state: dict[str, Any] = {}
    sources: dict[tuple[str, str], str] = {}
    for name in names:
        for view in site.boards:
            line = view.names.get(name)
            if line is not None:
                entries.write_entry(site, view, line)
                feeds.write_badge(site, view, line)
                pictures.write_picture(site, view, line)
                raw = site.data.kernels.result(view.name, name)
                site.folder.write(places.raw_result(view.name, name), kernels.compressed(raw))
        keys = [key for found in wanted.get(name, {}).values() for key in found]
        state[name], found = _entry_kernels(site, name, noted.get(name), keys)
        sources.update(found)
    return state, sources


def _entry_kernels(
    site: Site, name: str, noted: Any, keys: list[str]
) -> tuple[dict[str, Any], dict[tuple[str, str], str]]:
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


def _problems_task(batch: list[str], sources: dict[str, dict[tuple[str, str], str]]) -> None:
    site = _building[0]
    for problem in batch:
        problems.write_problem(site, problem, sources[problem])


def _by_problem(
    wanted: dict[str, dict[str, list[str]]], sources: dict[tuple[str, str], str]
) -> dict[str, dict[tuple[str, str], str]]:
    found: dict[str, dict[tuple[str, str], str]] = {}
    for entry, by_problem in wanted.items():
        for problem, keys in by_problem.items():
            for key in keys:
                if (entry, key) in sources:
                    found.setdefault(problem, {})[entry, key] = sources[entry, key]
    return found


def _copy_assets(folder: SiteFolder) -> None:
    for path in sorted((SITE_ROOT / "assets").rglob("*")):
        if path.is_file():
            folder.write(f"assets/{path.relative_to(SITE_ROOT / 'assets').as_posix()}", path.read_bytes())


def default_jobs() -> int:
    """How many processes to build with: at most the cores that this process may use."""
    return max(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1, 1)
