"""Builds the site: finds what has changed, shares the work among processes, removes what is stale."""

from __future__ import annotations

import gzip
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leaderboard.files.submission import kernel_sha256
from leaderboard.garbage import without_collection
from leaderboard.render.changes import code_key, entry_key, page_key, problem_key, site_stamp
from leaderboard.render.model import BuildReport, SiteData
from leaderboard.render.output import SiteFolder, claim, compressed, read_state, write_state
from leaderboard.render.pages import entries, explained, feeds, history, pictures, problems, versus
from leaderboard.render.pages.boards import write_board
from leaderboard.render.parts import kernels
from leaderboard.render.site import Site
from leaderboard.render.workers import spread
from leaderboard.resources import SITE

PROBLEMS_A_TASK = 5
ENTRIES_A_TASK = 10
FEW = 8
"""Fewer tasks than these are done here: what other processes would have to make anew costs more."""

Sources = dict[str, bytes]
"""The code of kernels, compressed, by the digest of its source."""


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """What tasks share: the site, and the code of problems where that changed, as `kept_code` says it."""

    site: Site
    code: Mapping[str, Mapping[str, tuple[str, str]]]


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
    with without_collection(of_what_stays=True):
        site = Site(data, folder)
        noted = read_state(out)
        write_state(out, {})  # of a build that is interrupted, no note holds
        stamp = site_stamp(site)
        noted = noted if noted.get("stamp") == stamp else {}
        folder.before = noted.get("made", {})
        state = _write_all(site, noted)
    _copy_assets(folder)
    removed = folder.remove_stale()
    write_state(out, {"stamp": stamp, "made": folder.made_from(), **state})
    return BuildReport(
        written=folder.written,
        unchanged=folder.unchanged,
        removed=removed,
        files=len(folder.kept),
        size_bytes=folder.size_bytes(),
        seconds=time.monotonic() - began,
        not_covered=pictures.not_covered(site),
    )


def _write_all(site: Site, noted: Mapping[str, Any]) -> dict[str, Any]:
    for view in site.boards:
        _ = view.fastest, view.best_of_pytorch  # computed here once, not in every worker
        history.past(site, view)
    names = sorted({line.standing.entry for view in site.boards for line in view.entries})
    code = {problem: code_key(site, problem) for problem in site.problems}
    keys = {
        "entries": {name: entry_key(site, name) for name in names},
        "problems": {problem: problem_key(site, problem, key) for problem, key in code.items()},
        "code": code,
    }
    state = {kind: _unchanged(site.folder, noted.get(kind, {}), some) for kind, some in keys.items()}
    changed = [name for name in site.problems if name not in state["problems"]]
    due = [name for name in site.problems if name not in state["code"]]
    plan = _Plan(site=site, code={problem: problems.kept_code(site, problem) for problem in due})

    def note(kind: str, name: str, files: list[str]) -> None:
        state[kind][name] = {"key": keys[kind][name], "files": files}

    missing = _missing(plan)
    fresh = frozenset(names) - state["entries"].keys()
    sources: Sources = {}
    boards = [(_board_task, at) for at in range(len(site.boards))]
    batches = [
        (_entries_task, {name: (name in fresh, missing.get(name, {})) for name in some})
        for some in _batches(sorted(fresh | missing.keys()), ENTRIES_A_TASK)
    ]
    for made in _spread(plan, [*boards, *batches]):
        if made is not None:  # a board's task hands nothing back
            for name, files in made[0].items():
                note("entries", name, files)
            sources.update(made[1])
    tasks = [
        (_problems_task, {name: _fetched(plan, name, sources) for name in some})
        for some in _batches(sorted({*changed, *due}), PROBLEMS_A_TASK)
    ]
    for made in _spread(plan, [(_common_task, None), *tasks]):
        for kind, name, files in made or ():
            note(kind, name, files)
    return state


def _fetched(plan: _Plan, problem: str, sources: Sources) -> Sources:
    return {digest: sources[digest] for digest in plan.code.get(problem, ()) if digest in sources}


def _missing(plan: _Plan) -> dict[str, dict[str, str]]:
    """Find the code that no earlier build left: entry to key to digest of the source."""
    missing: dict[str, dict[str, str]] = {}
    batches = _batches(sorted(plan.code), PROBLEMS_A_TASK)
    for known in _spread(plan, [(_known_task, some) for some in batches]):
        for problem, digests in known.items():
            for digest, (entry, key) in plan.code[problem].items():
                if digest not in digests:
                    missing.setdefault(entry, {})[key] = digest
    return missing


def _known_task(plan: _Plan, batch: Sequence[str]) -> dict[str, frozenset[str]]:
    """Say what code of some problems earlier builds left."""
    return {problem: frozenset(kernels.read_code(plan.site.folder, problem)) for problem in batch}


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
    for written, made in spread(_run, tasks, jobs=plan.site.data.config.jobs if len(tasks) >= FEW else 1):
        folder.merge(written)
        yield made
    plan.site.folder = folder


def _run(task: tuple[Callable[[_Plan, Any], Any], Any]) -> tuple[SiteFolder, Any]:
    work, argument = task
    (plan,) = _building
    plan.site.folder = SiteFolder(plan.site.folder.root, plan.site.folder.before)
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
    versus.write_comparisons(plan.site)
    pictures.write_site_picture(plan.site)


def _entries_task(
    plan: _Plan, batch: Mapping[str, tuple[bool, Mapping[str, str]]]
) -> tuple[dict[str, list[str]], Sources]:
    """Write the pages of changed entries; hand back their files, and the code that is missing."""
    site = plan.site
    state: dict[str, list[str]] = {}
    sources: Sources = {}
    for name, (is_fresh, missing) in batch.items():
        loaded = site.data.files.load(name) if missing else {}
        for key, digest in missing.items():
            if key in loaded and kernel_sha256(loaded[key]) == digest:
                sources[digest] = compressed(json.dumps(loaded[key]))
        if is_fresh:
            before = set(site.folder.kept)
            _write_entry(site, name)
            state[name] = sorted(site.folder.kept - before)
    return state, sources


def _write_entry(site: Site, name: str) -> None:
    for view in site.boards:
        line = view.names.get(name)
        if line is not None:
            entries.write_entry(site, view, line)
            feeds.write_badge(site, view, line)
            pictures.write_picture(site, view, line)


def _problems_task(plan: _Plan, batch: dict[str, Sources]) -> list[tuple[str, str, list[str]]]:
    """Write what changed of some problems; hand back kinds, names and their files."""
    site, made = plan.site, []
    for problem, fetched in batch.items():
        wanted = problems.kept_code(site, problem)
        held = frozenset(wanted)
        before = set(site.folder.kept)
        if problem in plan.code:
            known = kernels.read_code(site.folder, problem)
            known |= {digest: json.loads(gzip.decompress(source)) for digest, source in fetched.items()}
            sources = {digest: known[digest] for digest in wanted if digest in known}
            problems.write_sources(site, problem, sources)
            if sources.keys() == held:
                made.append(("code", problem, sorted(site.folder.kept - before)))
            held = frozenset(sources)
        before = set(site.folder.kept)
        problems.write_problem(site, problem, held, page_key(site, problem, held))
        pictures.write_problem_picture(site, problem)
        made.append(("problems", problem, sorted(site.folder.kept - before)))
    return made


def _copy_assets(folder: SiteFolder) -> None:
    for path in sorted((SITE / "assets").rglob("*")):
        if path.is_file():
            folder.write(f"assets/{path.relative_to(SITE / 'assets').as_posix()}", path.read_bytes())


def default_jobs() -> int:
    """How many processes to build with: at most the cores that this process may use."""
    return max(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1, 1)
