"""What the site is made of: boards, problems, the files of entries. Records; computes nothing."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kernel_evaluator.problems.deciding import Deal
from kernel_evaluator.problems.problem_set import Problem
from kernel_evaluator.records.keys import KernelKey

from leaderboard.files import store
from leaderboard.files.ledger import Spending
from leaderboard.files.notices import Notice
from leaderboard.render.audits import Audit
from leaderboard.render.cheats import Rates
from leaderboard.render.parts.lines import KernelLine
from leaderboard.render.published import PublishedFigures
from leaderboard.stages.standings import Board


@dataclass(frozen=True)
class EntryFiles:
    """The files of entries, read one at a time as pages need them, since all would fill memory."""

    submissions: Path
    data: Path
    digests: Mapping[str, str]
    shown: Mapping[tuple[str, str], Path]
    """The file of the revision that is shown, by board and entry, where it is not the newest."""

    def digest(self, entry: str) -> str:
        """Name the content of an entry's submission; empty where it has none."""
        return self.digests.get(entry, "")

    def load(self, entry: str) -> Mapping[str, str]:
        """Read an entry's kernels: key to source; empty where it has none."""
        path = self.submissions / f"{entry}.json"
        kernels: dict[str, str] = json.loads(path.read_bytes())["kernels"] if path.is_file() else {}
        return kernels

    def result(self, board: str, entry: str) -> bytes:
        """Give the bytes of an entry's recorded result, of the revision that is shown."""
        newest = store.recorded_path(self.data, board, entry)
        return self.shown.get((board, entry), newest).read_bytes()


@dataclass(frozen=True, kw_only=True)
class Revision:
    """One evaluation of an entry on a board, for its history."""

    revision: int
    reason: str
    finished_at: str
    evaluator_version: str
    correct: int
    deployed_speedup: float | None = None
    evaluator_sha256: str = ""


History = Mapping[tuple[str, str], Sequence[Revision]]
FirstCorrect = Mapping[tuple[str, str], Mapping[tuple[KernelKey, str], str]]
Verdict = tuple[int, str, str, float | None, str]
"""One recorded verdict on a kernel: revision, time, status, speedup, digest of the source."""


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """PyTorch's own times for a problem on a GPU, in milliseconds; None where not measured."""

    eager_ms: float | None = None
    compiled_ms: float | None = None
    source: str = ""


@dataclass(frozen=True, kw_only=True)
class SiteConfig:
    """What a deployment sets: its name, its own address (for feed and pictures) and its repository.

    `memory` is a folder in which what was read of entries is kept for the next build; None keeps nothing.
    """

    title: str = "KernelBench Leaderboard"
    base_url: str = ""
    repository: str = ""
    jobs: int = 2
    memory: Path | None = None


@dataclass(frozen=True, kw_only=True)
class SiteData:
    """Everything that pages are made from.

    `present` is the digest of today's evaluator.
    `digests` maps (board, entry) to the digest of its recorded result.
    `lines` maps (board, entry) to what tables show of its rows, in their order; the results that standings
    hold may be without rows.
    `packed` maps (board, entry) to its rows as packed CSV.
    `evaluators` maps (board, entry) to the evaluators' digests, with how many rows each judged.
    `history` maps (board, entry) to evaluations, oldest first, and `first_correct` to its kernels (key and
    digest of the source) with the end of the first evaluation that found them correct. `verdicts` holds the
    earlier verdicts on each kernel.
    `baselines` maps a board to problem (`"1_23"`) to times. `certified` names the problems that every trivial
    answer was tried on and failed.
    `rates` are the red team's, by device, and `stays_open` says what is known to stay open. `audits` are the
    newest first.
    `deals` say by precision what inputs are timed on a problem, with the sizes at which that was found.
    """

    boards: tuple[Board, ...]
    problems: tuple[Problem, ...]
    files: EntryFiles
    present: str = ""
    digests: Mapping[tuple[str, str], str] = field(default_factory=dict)
    config: SiteConfig = SiteConfig()
    lines: Mapping[tuple[str, str], Sequence[KernelLine]] = field(default_factory=dict)
    packed: Mapping[tuple[str, str], bytes] = field(default_factory=dict)
    evaluators: Mapping[tuple[str, str], Counter[str]] = field(default_factory=dict)
    history: History = field(default_factory=dict)
    first_correct: FirstCorrect = field(default_factory=dict)
    verdicts: Mapping[tuple[str, str], Mapping[str, Sequence[Verdict]]] = field(default_factory=dict)
    baselines: Mapping[str, Mapping[str, Baseline]] = field(default_factory=dict)
    certified: frozenset[str] = frozenset()
    deals: Mapping[str, Mapping[str, tuple[str, Deal]]] = field(default_factory=dict)
    notices: tuple[Notice, ...] = ()
    spending: tuple[Spending, ...] = ()
    rates: tuple[Rates, ...] = ()
    audits: tuple[Audit, ...] = ()
    stays_open: tuple[tuple[str, str], ...] = ()
    published: PublishedFigures = field(default_factory=PublishedFigures)
    schemas: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class BuildReport:
    """What a build did: files written, left as they were, and removed; bytes of the whole site.

    `not_covered` are entries with a sign in their names that no font here has.
    """

    written: int
    unchanged: int
    removed: int
    files: int
    size_bytes: int
    seconds: float
    not_covered: Sequence[str] = ()
