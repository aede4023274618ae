"""Builds the site: finds what has changed, shares the work among processes, removes what is stale."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leaderboard.render import places
from leaderboard.render.changes import entry_key, problem_key, site_stamp
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
    """What tasks share: the site, which sources changed problem pages show, which kernels' code is kept."""

    site: Site
    wanted: Mapping[str, Mapping[str, list[str]]]
    code: Mapping[str, frozenset[str]]


_building: list[_Plan] = []
"""The plan that forked workers inherit: it is too large to send to each."""


def build_site(data: SiteData, out: Path) -> BuildReport:
    """Build the whole site into `out`; unchanged files are not written again, stale ones are removed.

    Pages whose every input is that of the last build are left as they are. Raises OccupiedError where `out`
    holds something else.
    """
    began = time.monotonic()
    claim(out)
    folder = SiteFolder(out)
    with without_collection():
        site = Site(data, folder)
        noted = read_state(out)
        write_state(out, {})  # of a build that is interrupted, no note holds
        stamp = site_stamp(site)
        state = _write_all(site, noted if noted.get("stamp") == stamp else {})
    _copy_assets(folder)
    removed = folder.remove_stale()
    write_state(out, {"stamp": stamp, **state})
    return BuildReport(
        written=folder.written,
        unchanged=folder.unchanged,
        removed=removed,
        files=len(folder.kept),
        size_bytes=folder.size_bytes(),
        seconds=time.monotonic() - began,
    )


def _write_all(site: Site, noted: Mapping[str, Any]) -> dict[str, Any]:
    for view in site.boards:
        _ = view.fastest, view.best_of_pytorch  # computed here once, not in every worker
        history.records_by_problem(site, view)
    code = problems.kept_code(site)
    names = sorted({line.standing.entry for view in site.boards for line in view.entries})
    entry_keys = {name: entry_key(site, name, code.get(name, frozenset())) for name in names}
    problem_keys = {problem: problem_key(site, problem) for problem in site.problems}
    state = {
        "entries": _unchanged(site.folder, noted.get("entries", {}), entry_keys),
        "problems": _unchanged(site.folder, noted.get("problems", {}), problem_keys),
    }
    changed = [name for name in site.problems if name not in state["problems"]]
    plan = _Plan(site=site, wanted=problems.wanted_sources(site, changed), code=code)
    due = sorted({*names, *plan.wanted} - (state["entries"].keys() - plan.wanted.keys()))
    fresh = frozenset(names) - state["entries"].keys()
    sources: Sources = {}
    boards = [(_board_task, at) for at in range(len(site.boards))]
    batches = [(_entries_task, (some, fresh)) for some in _batches(due, ENTRIES_A_TASK)]
    for made in _spread(plan, [*boards, *batches]):
        if made is not None:  # a board's task hands nothing back
            for name, files in made[0].items():
                state["entries"][name] = {"key": entry_keys[name], "files": files}
            sources.update(made[1])
    shown = _by_problem(plan.wanted, sources)
    tasks = [
        (_problems_task, {name: shown.get(name, {}) for name in some})
        for some in _batches(changed, PROBLEMS_A_TASK)
    ]
    for made in _spread(plan, [(_common_task, None), *tasks]):
        for name, files in (made or {}).items():
            state["problems"][name] = {"key": problem_keys[name], "files": files}
    return state


def _unchanged(folder: SiteFolder, noted: Mapping[str, Any], keys: Mapping[str, str]) -> dict[str, Any]:
    """Keep the files of what is as it was, where all of them are still there."""
    found = {}
    for name, note in noted.items():
        if keys.get(name) == note["key"] and _keep_all(folder, note["files"]):
            found[name] = note
    return found


def _keep_all(folder: SiteFolder, names: Iterable[str]) -> bool:
    kept = [folder.keep(name) for name in names]  # every one is kept, even where another is missing
    return all(kept)


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
    pictures.write_board_picture(plan.site, view)
    feeds.write_board_data(plan.site, view)


def _common_task(plan: _Plan, _: None) -> None:
    """Write what belongs to no board."""
    problems.write_problem_list(plan.site)
    feeds.write_feeds(plan.site)
    explained.write_pages(plan.site)
    pictures.write_site_picture(plan.site)


def _entries_task(
    plan: _Plan, batch: tuple[list[str], frozenset[str]]
) -> tuple[dict[str, list[str]], Sources]:
    """Write the pages and kernels of changed entries; hand back their files, and what problem pages show."""
    site = plan.site
    names, fresh = batch
    state: dict[str, list[str]] = {}
    sources: Sources = {}
    for name in names:
        loaded = site.data.kernels.load(name)
        for keys in plan.wanted.get(name, {}).values():
            sources.update({(name, key): loaded[key] for key in keys if key in loaded})
        if name in fresh:
            before = set(site.folder.kept)
            _write_entry(site, name)
            kept = plan.code.get(name, frozenset())
            whole = problems.keeps_all(site, name)
            code = loaded if whole else {key: source for key, source in loaded.items() if key in kept}
            kernels.write_kernels(site.folder, name, code)
            state[name] = sorted(site.folder.kept - before)
    return state, sources


def _write_entry(site: Site, name: str) -> None:
    for view in site.boards:
        line = view.names.get(name)
        if line is not None:
            entries.write_entry(site, view, line)
            feeds.write_badge(site, view, line)
            pictures.write_picture(site, view, line)
            raw = site.data.kernels.result(view.name, name)
            site.folder.write(places.raw_result(view.name, name), kernels.compressed(raw))


def _problems_task(plan: _Plan, batch: dict[str, Sources]) -> dict[str, list[str]]:
    state = {}
    for problem, sources in batch.items():
        before = set(plan.site.folder.kept)
        problems.write_problem(plan.site, problem, sources)
        pictures.write_problem_picture(plan.site, problem)
        state[problem] = sorted(plan.site.folder.kept - before)
    return state


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
