"""What a run said, beside what was found of it: each kept reply with the row of its kernel.

They meet by the kernel's digest and its problem, wherever the row comes from: a work file, a recorded result,
or the turns of the run itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernel_evaluator.records.keys import KernelKey
from kernel_evaluator.records.rows import Row

from leaderboard.files.store import StoreError, read_result
from leaderboard.generate.replies import NAME, KeptReply, read_replies
from leaderboard.generate.turns import TurnFile
from leaderboard.reward import Reward, reward_of

Wanted = tuple[int, int, str]
"""A level, a problem, and a kernel's digest."""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A reply, the folder of its run, and the row of its kernel where it was judged."""

    folder: Path
    reply: KeptReply
    row: Row | None = None

    @property
    def run(self) -> str:
        """The run's name, which runs of several folders may have."""
        return self.folder.name

    @property
    def reward(self) -> Reward | None:
        """What it is worth to train on; nothing where it was not judged, or could not be."""
        scored = reward_of(self.row) if self.row else None
        return scored if scored and scored.is_usable else None

    @property
    def value(self) -> float:
        """The reward as a number; a reply without a kernel gets nothing."""
        return self.reward.value if self.reward else 0.0


def read_samples(runs: Sequence[Path], results: Sequence[Path]) -> list[Sample]:
    """Read runs and results; raise StoreError where a run kept no replies, or a file is none.

    A run that two of the paths lead to is one. A row of a result goes before that of a turn.
    """
    rows = dict(_of_results(results))
    samples: list[Sample] = []
    for run in dict.fromkeys(path.resolve() for path in runs):
        try:
            replies = list(read_replies(run))
            known = {**dict(_of_turns(run, {reply.key for reply in replies})), **rows}
        except ValueError as error:
            raise StoreError(str(error)) from error
        if not replies:
            raise StoreError(f"{run / NAME}: no replies; kbl generate keeps them from this version on")
        samples += [
            Sample(folder=run, reply=reply, row=known.get(_wanted(reply.key, reply.kernel_sha256)))
            for reply in replies
        ]
    return samples


def _of_results(paths: Iterable[Path]) -> Iterator[tuple[Wanted, Row]]:
    for path in paths:
        for row in read_result(path).rows:
            yield _wanted(row.key, row.kernel_sha256), row


def _of_turns(run: Path, keys: Iterable[KernelKey]) -> Iterator[tuple[Wanted, Row]]:
    for key in sorted(keys):
        for turn in TurnFile(folder=run, key=key).read():
            if turn.row is not None:
                yield _wanted(key, turn.row.kernel_sha256), turn.row


def _wanted(key: KernelKey, digest: str) -> Wanted:
    return key.level, key.problem_id, digest
