"""Reads what the site is made from: results, submissions, problems, baselines, certificates.

A thousand entries hold gigabytes of sources, so a submission is read once for its digests, and again only
when its kernels are written or shown.
"""

from __future__ import annotations

import gc
import hashlib
import json
import multiprocessing
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from kernelbench import figures
from kernelbench.keys import KernelKey
from kernelbench.problems import DEFAULT_ROOT, Problem, ProblemSet
from kernelbench.rows import ResultFile

from leaderboard import store
from leaderboard.aggregate import aggregate
from leaderboard.baselines import read_baseline
from leaderboard.boards import CERTIFICATES, read_certificates
from leaderboard.render.model import Baseline, Notice, Revision, SiteConfig, SiteData
from leaderboard.render.published import read_published
from leaderboard.standings import Board
from leaderboard.submission import Submission, kernel_sha256

SCHEMAS = Path(__file__).resolve().parents[1] / "schemas"

_REPEATED = ("problem_sha256", "evaluator_sha256", "environment", "finished_at", "status")


_key = cache(KernelKey.parse)
"""The same few hundred keys stand in every submission."""


@dataclass(frozen=True, kw_only=True)
class Places:
    """Where things are read from."""

    data: Path = Path("data")
    submissions: Path = Path("submissions")
    baselines: Path = Path("baselines")
    problems: Path = DEFAULT_ROOT
    certificates: Path = CERTIFICATES


class DigestedSubmission(Submission):
    """A submission with its kernels' digests and without their sources: `kernels` maps keys to nothing."""

    @classmethod
    def read(cls, path: Path) -> DigestedSubmission:
        """Read a merged submission; it passed validation before the merge."""
        raw = path.read_bytes()
        try:
            value = json.loads(raw)
            metadata, kernels = value["metadata"], value["kernels"]
            digests = {_key(name): kernel_sha256(source) for name, source in kernels.items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise store.StoreError(f"{path}: not a submission: {error}; kbl validate says more") from error
        return _digested(path.stem, hashlib.sha256(raw).hexdigest(), metadata, digests)

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel between processes without the objects of keys, which every submission shares."""
        names = {str(key): digest for key, digest in self.digests.items()}
        return _from_names, (self.entry, self.sha256, self.metadata, names)


def _from_names(
    entry: str, sha256: str, metadata: Mapping[str, Any], names: Mapping[str, str]
) -> DigestedSubmission:
    return _digested(entry, sha256, metadata, {_key(name): digest for name, digest in names.items()})


def _digested(
    entry: str, sha256: str, metadata: Mapping[str, Any], digests: Mapping[KernelKey, str]
) -> DigestedSubmission:
    made = DigestedSubmission(
        entry=entry, sha256=sha256, metadata=metadata, kernels=dict.fromkeys(digests, "")
    )
    made.__dict__["digests"] = digests
    return made


@dataclass(frozen=True)
class EntryFiles:
    """The files of entries, read one at a time, as pages need them."""

    submissions: Path
    data: Path
    digests: Mapping[str, str] = field(default_factory=dict)

    def digest(self, entry: str) -> str:
        """Name the content of an entry's submission; empty where it has none."""
        return self.digests.get(entry, "")

    def load(self, entry: str) -> Mapping[str, str]:
        """Read an entry's kernels: key to source; empty where it has none."""
        path = self._path(entry)
        kernels: dict[str, str] = json.loads(path.read_bytes())["kernels"] if path.is_file() else {}
        return kernels

    def result(self, board: str, entry: str) -> bytes:
        """Give the bytes of an entry's recorded result."""
        return store.recorded_path(self.data, board, entry).read_bytes()

    def _path(self, entry: str) -> Path:
        return self.submissions / f"{entry}.json"


def read_site(places: Places, config: SiteConfig) -> SiteData:
    """Read everything and aggregate it; raise StoreError where a result file is broken."""
    with _without_collection():
        certificates = read_certificates(places.certificates)
        results, submissions = _read_entries(places, config.jobs)
        boards = aggregate(results, submissions, certificates)
    problems = tuple(ProblemSet(places.problems))
    return SiteData(
        boards=boards,
        problems=problems,
        kernels=EntryFiles(
            places.submissions, places.data, {name: item.sha256 for name, item in submissions.items()}
        ),
        config=config,
        history=_read_history(places.data, boards),
        baselines={board.name: _read_baselines(places.baselines / f"{board.name}.json") for board in boards},
        floors={gpu: _floors(gpu, problems) for gpu in {board.gpu for board in boards}},
        certified=_read_certified(places.certificates),
        notices=_read_notices(places.data / "notices.json"),
        published=read_published(places.baselines),
        schemas={path.name: path.read_bytes() for path in sorted(SCHEMAS.glob("*.json"))},
    )


def _read_entries(places: Places, jobs: int) -> tuple[list[ResultFile], dict[str, Submission]]:
    """Read results and submissions, in processes of their own where there are many."""
    paths = sorted((places.data / "results").glob("*/*.json"))
    entries = sorted({path.stem for path in paths})
    submitted = [
        path for path in (places.submissions / f"{entry}.json" for entry in entries) if path.is_file()
    ]
    results = list(_spread(_read_result, paths, jobs))
    submissions = {item.entry: item for item in _spread(DigestedSubmission.read, submitted, jobs)}
    return results, submissions


def _spread(read: Any, paths: list[Path], jobs: int) -> Iterator[Any]:
    if jobs < 2 or len(paths) < 50 or sys.platform != "linux":
        yield from map(read, paths)
        return
    with multiprocessing.get_context("fork").Pool(jobs, initializer=gc.disable) as pool:
        yield from pool.imap(read, paths, chunksize=8)


def _read_result(path: Path) -> ResultFile:
    """Read a recorded result; values that every row repeats are kept once."""
    try:
        data = json.loads(path.read_bytes())
        for row in data["rows"]:
            row.update({name: sys.intern(row[name]) for name in _REPEATED if name in row})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise store.StoreError(f"{path}: not a result file: {error}") from error
    result = store.parse_result(data, path)
    if (result.board, result.entry) != (path.parent.name, path.stem):
        raise store.StoreError(
            f"{path}: says it is {result.board}/{result.entry}; the path must say the same"
        )
    return result


@contextmanager
def _without_collection() -> Iterator[None]:
    """Switch the search for rubbish off: reading makes none, and looking for it takes a third of the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _floors(gpu: str, problems: Iterable[Problem]) -> dict[str, float]:
    found = {f"{p.level}_{p.problem_id}": figures.floor_ms(p.level, p.problem_id, gpu=gpu) for p in problems}
    return {problem: floor for problem, floor in found.items() if floor}


def _read_history(data: Path, boards: Iterable[Board]) -> dict[tuple[str, str], list[Revision]]:
    history: dict[tuple[str, str], list[Revision]] = {}
    for board in boards:
        for standing in board.standings:
            folder = store.history_path(data, board.name, standing.entry, 0).parent
            files = sorted(folder.glob("*.json")) if folder.is_dir() else []
            if files:
                history[board.name, standing.entry] = [_revision(store.read_result(path)) for path in files]
    return history


def _revision(result: ResultFile) -> Revision:
    return Revision(
        revision=result.revision,
        reason=result.reason,
        finished_at=result.finished_at,
        evaluator_version=result.evaluator_version,
        correct=sum(row.is_correct for row in result.rows if row.key.sample == 0 and row.key.level != 4),
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


def _read_certified(path: Path) -> frozenset[str]:
    problems = store.read_strictly(path)["problems"] if path.is_file() else {}
    return frozenset(problem for problem, facts in problems.items() if facts["ranked"])


def _read_notices(path: Path) -> tuple[Notice, ...]:
    if not path.is_file():
        return ()
    return tuple(Notice(**notice) for notice in json.loads(path.read_text("utf-8")))
