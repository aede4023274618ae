"""Reads what the site is made from: results, submissions, problems, baselines, certificates."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from pathlib import Path

from kernel_evaluator.problems.certificates import CERTIFICATES
from kernel_evaluator.problems.deciding import sharpness_of
from kernel_evaluator.problems.problem_set import ProblemSet
from kernel_evaluator.records.keys import PROBLEM_COUNTS, RANKED_LEVELS, KernelKey
from kernel_evaluator.records.places import PROBLEM_SET
from kernel_evaluator.records.rows import BOARD_PRECISIONS, ResultFile

from leaderboard.files import store
from leaderboard.files.baseline_files import read_baseline
from leaderboard.files.ledger import read_all
from leaderboard.files.notices import read_notices
from leaderboard.files.struck import without_struck
from leaderboard.garbage import without_collection
from leaderboard.render.audits import read_audits
from leaderboard.render.cheats import read_cheats, read_open
from leaderboard.render.model import (
    Baseline,
    EntryFiles,
    FirstCorrect,
    History,
    Revision,
    SiteConfig,
    SiteData,
    Verdict,
)
from leaderboard.render.parts.lines import is_scored
from leaderboard.render.published import read_published
from leaderboard.render.reading.readings import EntryReader, Reading
from leaderboard.render.reading.remembered import BuildMemory, stamp_of
from leaderboard.render.stamp import present_evaluator
from leaderboard.render.workers import spread
from leaderboard.resources import SCHEMAS
from leaderboard.stages.aggregate import Certificates, found_as_often_as_asked, rank, unranked_in
from leaderboard.stages.boards import read_certificates, read_deals, read_ranked
from leaderboard.stages.known import Known
from leaderboard.stages.standings import Board

ENTRIES_A_TASK = 8


@dataclass(frozen=True, kw_only=True)
class Places:
    """Where things are read from."""

    data: Path = Path("data")
    submissions: Path = Path("submissions")
    baselines: Path = Path("baselines")
    problems: Path = PROBLEM_SET
    certificates: Path = CERTIFICATES
    redteam: Path = Path("benchmarks/results")
    corpus: Path = Path("tests/redteam")
    trust: Path = Path("docs/trust.md")


def read_site(places: Places, config: SiteConfig) -> SiteData:
    """Read everything and aggregate it; raise StoreError where a file is broken."""
    problems = tuple(ProblemSet(places.problems))
    certificates = read_certificates(places.certificates)
    reader = EntryReader(data=places.data, submissions=places.submissions, certificates=certificates)
    memory = None if config.memory is None else BuildMemory(config.memory, stamp_of(certificates))
    known = Known() if memory is None else memory.recall_known()
    with without_collection(of_what_stays=True):
        readings = _read_entries(reader, places, config, memory)
        boards = rank((reading.scored for reading in readings), certificates, known)
    present = present_evaluator(known)
    if memory is not None:
        memory.keep_known(known)
    digests = {reading.scored.standing.entry: reading.submission_sha256 for reading in readings}
    shown = {reading.place: reading.shown for reading in readings if reading.shown != reading.path}
    history, first_correct, verdicts = _read_history(places.data, boards, certificates)
    return SiteData(
        boards=boards,
        problems=problems,
        files=EntryFiles(places.submissions, places.data, digests, shown),
        present=present,
        digests={reading.place: reading.result_sha256 for reading in readings},
        config=config,
        lines={reading.place: reading.lines for reading in readings},
        packed={reading.place: reading.packed for reading in readings},
        evaluators={reading.place: reading.evaluators for reading in readings},
        history=history,
        first_correct=first_correct,
        verdicts=verdicts,
        baselines={board.name: _read_baselines(places.baselines / f"{board.name}.json") for board in boards},
        certified=read_ranked(places.certificates),
        deals={
            precision: read_deals(places.certificates.with_name(sharpness_of(precision).name))
            for precision in BOARD_PRECISIONS
        },
        notices=read_notices(places.data),
        spending=read_all(places.data),
        published=read_published(places.baselines / "published"),
        audits=read_audits(places.data),
        rates=read_cheats(places.redteam, places.corpus),
        stays_open=read_open(places.trust),
        schemas={path.name: path.read_bytes() for path in sorted(SCHEMAS.glob("*.json"))},
    )


def _read_entries(
    reader: EntryReader, places: Places, config: SiteConfig, memory: BuildMemory | None
) -> list[Reading]:
    """Read every entry with its results on all boards; give the results in the order of their paths."""
    by_entry: dict[str, list[Path]] = defaultdict(list)
    for path in sorted((places.data / "results").glob("*/*.json")):
        by_entry[path.stem].append(path)
    if memory is None:
        read = spread(reader.read, list(by_entry.values()), jobs=config.jobs, chunk=ENTRIES_A_TASK)
        return sorted(chain.from_iterable(read), key=attrgetter("path"))
    files = {entry: _files_of(places, entry, paths) for entry, paths in by_entry.items()}
    known = {entry: memory.recall(entry, files[entry]) for entry in by_entry}
    due = [entry for entry, made in known.items() if made is None]
    read = spread(reader.read, [by_entry[entry] for entry in due], jobs=config.jobs, chunk=ENTRIES_A_TASK)
    for entry, made in zip(due, read, strict=True):
        known[entry] = made
        memory.keep(entry, files[entry], made)
    memory.forget(frozenset(by_entry))
    return sorted(chain.from_iterable(known.values()), key=attrgetter("path"))


def _files_of(places: Places, entry: str, results: Iterable[Path]) -> list[Path]:
    """Name every file that an entry's scores come from."""
    folders = (store.history_folder(places.data, result.parent.name, entry) for result in results)
    earlier = [path for folder in folders for path in sorted(folder.glob("*.json"))]
    others = [places.submissions / f"{entry}.json", places.data / "struck.json"]
    return [*results, *earlier, *(path for path in others if path.is_file())]


def _read_history(
    data: Path, boards: Iterable[Board], certificates: Certificates
) -> tuple[History, FirstCorrect, dict[tuple[str, str], dict[str, list[Verdict]]]]:
    history: dict[tuple[str, str], list[Revision]] = {}
    first_correct: dict[tuple[str, str], Mapping[tuple[KernelKey, str], str]] = {}
    verdicts: dict[tuple[str, str], dict[str, list[Verdict]]] = {}
    for board in boards:
        for standing in board.standings:
            folder = store.history_folder(data, board.name, standing.entry)
            files = {int(path.stem): path for path in folder.glob("*.json") if path.stem.isdecimal()}
            earlier = [files[number] for number in sorted(files) if number < standing.result.revision]
            results = [store.read_result(path) for path in earlier]
            if results:
                place = board.name, standing.entry
                unranked = unranked_in(certificates, standing.result.precision)
                is_baseline = standing.kind == "baseline"
                history[place] = [
                    _revision(_counted(data, result, is_baseline), unranked) for result in results
                ]
                first_correct[place] = _first_correct(results)
                verdicts[place] = _verdicts(results)
    return history, first_correct, verdicts


def _verdicts(results: Iterable[ResultFile]) -> dict[str, list[Verdict]]:
    """List each kernel's verdicts, one each time that something of it changed."""
    found: dict[str, list[Verdict]] = defaultdict(list)
    for result in results:
        for row in result.rows:
            known = found[str(row.key)]
            verdict = (
                result.revision,
                row.finished_at or result.finished_at,
                row.status.value,
                row.speedup,
                row.kernel_sha256[:8],
            )
            if not known or known[-1][2:] != verdict[2:]:
                known.append(verdict)
    return dict(found)


def _first_correct(results: Iterable[ResultFile]) -> dict[tuple[KernelKey, str], str]:
    """Map each kernel to the end of the first evaluation that found it correct."""
    latest_first = sorted(results, key=lambda result: result.finished_at, reverse=True)
    return {
        (row.key, row.kernel_sha256): result.finished_at
        for result in latest_first
        for row in result.rows
        if row.is_correct
    }


def _counted(data: Path, result: ResultFile, is_baseline: bool) -> ResultFile:
    """Leave out what counts nowhere, as far as it shows without the submission of that time."""
    left = without_struck(data, result)
    return left if is_baseline else found_as_often_as_asked(left)


def _revision(result: ResultFile, unranked: Mapping[str, str]) -> Revision:
    scored = [row for row in result.rows if is_scored(row.key, unranked)]
    problems = sum(PROBLEM_COUNTS[level] for level in RANKED_LEVELS)
    ranked = problems - sum(int(key[0]) in RANKED_LEVELS for key in unranked)
    gains = (math.log(max(row.speedup, 1.0)) for row in scored if row.is_correct and row.speedup)
    judges = Counter(row.evaluator_sha256 for row in result.rows).most_common(1)
    return Revision(
        revision=result.revision,
        reason=result.reason,
        finished_at=result.finished_at,
        evaluator_version=result.evaluator_version,
        correct=sum(row.is_correct for row in scored),
        deployed_speedup=math.exp(math.fsum(gains) / ranked),
        evaluator_sha256=judges[0][0] if judges else "",
    )


def _read_baselines(path: Path) -> dict[str, Baseline]:
    if not path.is_file():
        return {}
    file = read_baseline(path)
    if not file.measured_here:
        return {}
    return {
        problem: Baseline(
            eager_ms=times.eager.typical if times.eager else None,
            compiled_ms=times.compiled.typical if times.compiled else None,
            source=file.source,
        )
        for problem, times in file.problems.items()
    }
