"""Reads what the site is made from: results, submissions, problems, baselines, certificates."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from kernelbench import figures
from kernelbench.keys import KernelKey
from kernelbench.problems import DEFAULT_ROOT, Problem, ProblemSet
from kernelbench.rows import ResultFile

from leaderboard import store
from leaderboard.aggregate import aggregate
from leaderboard.boards import CERTIFICATES, read_certificates
from leaderboard.render.model import Baseline, Notice, Revision, SiteConfig, SiteData
from leaderboard.standings import Board
from leaderboard.submission import Submission

SCHEMAS = Path(__file__).resolve().parents[1] / "schemas"


@dataclass(frozen=True, kw_only=True)
class Places:
    """Where things are read from."""

    data: Path = Path("data")
    submissions: Path = Path("submissions")
    baselines: Path = Path("baselines")
    problems: Path = DEFAULT_ROOT
    certificates: Path = CERTIFICATES
    notices: Path = Path("data/notices.json")


class LazyKernels(Mapping[KernelKey, str]):
    """An entry's kernels that know their keys and read the file when a source is asked for.

    A thousand entries hold gigabytes of sources; the boards need their digests only.
    """

    def __init__(self, path: Path, keys: Iterable[KernelKey]) -> None:
        self._path = path
        self._keys = tuple(keys)

    def __iter__(self) -> Iterator[KernelKey]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, key: object) -> bool:
        return key in self._set

    def __getitem__(self, key: KernelKey) -> str:
        source: str = json.loads(self._path.read_bytes())["kernels"][str(key)]
        return source

    def items(self) -> Any:
        """Read the file once and give every key with its source."""
        kernels = json.loads(self._path.read_bytes())["kernels"]
        return [(key, kernels[str(key)]) for key in self._keys]

    @cached_property
    def _set(self) -> frozenset[KernelKey]:
        return frozenset(self._keys)


@dataclass(frozen=True)
class SubmissionFolder(Mapping[str, Submission]):
    """The merged submissions and the recorded results, read one at a time; validated before the merge."""

    root: Path
    data: Path
    _read: dict[str, Submission] = field(default_factory=dict, repr=False)

    def __getitem__(self, entry: str) -> Submission:
        if entry not in self._read:
            self._read[entry] = self._load(entry)
        return self._read[entry]

    def __contains__(self, entry: object) -> bool:
        return self._path(str(entry)).is_file()

    def __iter__(self) -> Iterator[str]:
        return (path.stem for path in sorted(self.root.glob("*.json")))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def digest(self, entry: str) -> str:
        """Name the content of an entry's submission; empty where it has none."""
        return hashlib.sha256(self._path(entry).read_bytes()).hexdigest() if entry in self else ""

    def load(self, entry: str) -> Mapping[str, str]:
        """Read an entry's kernels: key to source; empty where it has none."""
        if entry not in self:
            return {}
        kernels: dict[str, str] = json.loads(self._path(entry).read_bytes())["kernels"]
        return kernels

    def result(self, board: str, entry: str) -> bytes:
        """Give the bytes of an entry's recorded result."""
        return store.recorded_path(self.data, board, entry).read_bytes()

    def _path(self, entry: str) -> Path:
        return self.root / f"{entry}.json"

    def _load(self, entry: str) -> Submission:
        raw = self._path(entry).read_bytes()
        value = json.loads(raw)
        keys = sorted(KernelKey.parse(key) for key in value["kernels"])
        return Submission(
            entry=entry,
            sha256=hashlib.sha256(raw).hexdigest(),
            metadata=value["metadata"],
            kernels=LazyKernels(self._path(entry), keys),
        )


def read_site(places: Places, config: SiteConfig) -> SiteData:
    """Read everything and aggregate it; raise StoreError where a result file is broken."""
    folder = SubmissionFolder(places.submissions, places.data)
    certificates = read_certificates(places.certificates)
    boards = aggregate(store.recorded_results(places.data), folder, certificates)
    problems = tuple(ProblemSet(places.problems))
    return SiteData(
        boards=boards,
        problems=problems,
        kernels=folder,
        config=config,
        history=_read_history(places.data, boards),
        baselines={board.name: _read_baselines(places.baselines / f"{board.name}.json") for board in boards},
        floors={gpu: _floors(gpu, problems) for gpu in {board.gpu for board in boards}},
        certificates=certificates,
        notices=_read_notices(places.notices),
        schemas={path.name: path.read_bytes() for path in sorted(SCHEMAS.glob("*.json"))},
    )


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
    return {}


def _read_notices(path: Path) -> tuple[Notice, ...]:
    if not path.is_file():
        return ()
    return tuple(Notice(**notice) for notice in json.loads(path.read_text("utf-8")))
