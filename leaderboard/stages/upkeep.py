"""What a board needs from time to time: which entries are due, the top ten, bans and strikes.

Reads a checkout, and changes files of it. Starts nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from kernel_evaluator.records.keys import KernelKey
from kernel_evaluator.records.rows import BOARD_PRECISIONS, Status
from kernel_evaluator.records.version import evaluator_sha256

from leaderboard.files import banned, store, struck
from leaderboard.files.banned import Ban
from leaderboard.files.merged import covering_revision
from leaderboard.files.notices import Notice, read_notices, write_notices
from leaderboard.files.struck import Strike
from leaderboard.files.submission import Submission
from leaderboard.stages.boards import load_boards, read_submissions
from leaderboard.stages.confirm import needs_second
from leaderboard.stages.money import Estimate, estimate, seconds_by_kind
from leaderboard.texts.inert import visible

TOP = 10
_LOGIN = re.compile(r"[A-Za-z0-9_-]{1,100}(\[bot\])?")


class UpkeepError(Exception):
    """What was asked cannot be done; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Due:
    """An entry of which kernels are to be judged again, and what that is thought to cost."""

    submission: Submission
    kernels: tuple[KernelKey, ...]
    cost: Estimate


def due(
    data: Path,
    submissions: Path,
    board: str,
    *,
    engine: str,
    gpu: str,
    precision: str = BOARD_PRECISIONS[0],
    whole: Sequence[str] | None = None,
) -> list[Due]:
    """List merged entries with a result on the board and kernels without a good row, cheapest first.

    Where `whole` is given, its entries alone are listed, and every kernel of theirs. Entries of another
    precision than the board's are left out.
    """
    recorded = store.recorded_results(data)
    results = {result.entry: result for result in recorded if result.board == board}
    known = read_submissions(submissions, [path.stem for path in sorted(submissions.glob("*.json"))])
    seconds = seconds_by_kind(recorded, known)
    ours, found = evaluator_sha256(), []
    for entry in sorted(results.keys() & known.keys() if whole is None else known.keys() & set(whole)):
        submission = known[entry]
        if submission.precision != precision:
            continue
        rows = covering_revision(data, results[entry], submission).rows if whole is None else ()
        good = {
            (row.key, row.kernel_sha256)
            for row in rows
            if row.evaluator_sha256 == ours and row.status is not Status.INFRA_ERROR and not needs_second(row)
        }
        digests = submission.digests
        left = tuple(k for k in submission.kernels if (k, digests[k]) not in good)
        if left:
            sources = [submission.kernels[key] for key in left]
            cost = estimate(sources, seconds, engine=engine, gpu=gpu)
            found.append(Due(submission=submission, kernels=left, cost=cost))
    return sorted(found, key=lambda one: (one.cost.usd or 0.0, one.submission.entry))


def why_not(submissions: Path, entry: str, board: str, precision: str) -> str:
    """Say why an entry cannot be judged for a board: it is not merged, or of another precision."""
    found = read_submissions(submissions, [entry]).get(entry)
    if found is None:
        return f"there is no merged entry {entry}"
    return (
        f"{entry} is for boards of {found.precision} (metadata.precision), and {board} is one of "
        f"{precision}: name a board of {found.precision}"
    )


def affordable(listed: Sequence[Due], usd: float) -> list[Due]:
    """Take from the front while the dollars last."""
    taken = []
    for one in listed:
        usd -= one.cost.usd or 0.0
        if usd < 0:
            break
        taken.append(one)
    return taken


def top(data: Path, submissions: Path, board: str) -> list[str]:
    """Name the entries of the first ten ranks."""
    for found in load_boards(data, submissions):
        if found.name == board:
            ranked = [standing for standing in found.standings if standing.rank is not None]
            return [standing.entry for standing in ranked if (standing.rank or 0) <= TOP]
    return []


def ban(path: Path, ban: Ban) -> None:
    """Put an account on the list; raise UpkeepError where it is there, or what is said of it is no use."""
    if not 0 < ban.id < 2**63:
        raise UpkeepError(
            f"the account's number must be 1 to {2**63 - 1}, got {ban.id}: "
            "gh api users/LOGIN --jq .id says it"
        )
    if not _LOGIN.fullmatch(ban.login):
        raise UpkeepError(
            f"the login must be letters, digits, - and _, at most 100 of them, got {ban.login[:40]!r}: "
            "copy it from the account's page"
        )
    known = banned.read_bans(path)
    if any(other.id == ban.id for other in known):
        raise UpkeepError(f"the account {ban.id} is banned already")
    banned.write_bans([*known, replace(ban, reason=_reason(ban.reason, "a ban"))], path)


def unban(path: Path, account: int) -> None:
    """Take an account off the list; raise UpkeepError where it is not there."""
    known = banned.read_bans(path)
    left = [other for other in known if other.id != account]
    if len(left) == len(known):
        raise UpkeepError(f"the account {account} is not banned")
    banned.write_bans(left, path)


def strike(data: Path, submissions: Path, entry: str, key: str, *, why: str, today: date) -> None:
    """Let a kernel's rows count as missing, and say so in the public log; raise UpkeepError."""
    submission = read_submissions(submissions, [entry]).get(entry)
    digests = {str(k): digest for k, digest in submission.digests.items()} if submission else {}
    if key not in digests:
        raise UpkeepError(f"no merged entry {entry} has a kernel {key}")
    said, day = _reason(why, "a strike"), today.isoformat()
    new = Strike(entry=entry, key=key, kernel_sha256=digests[key], day=day, why=said)
    with store.locked_folder(data):
        known, notices = struck.read_strikes(data), read_notices(data)
        for other in known:
            if (other.entry, other.key, other.kernel_sha256) == (entry, key, new.kernel_sha256):
                raise UpkeepError(f"{entry} {key} is struck already, since {other.day}")
        notice = Notice(date=day, entry=entry, what=f"Struck: {key}", why=said)
        if notice not in notices:  # it is there where a strike was cut off here
            write_notices(data, [*notices, notice])
        struck.write_strikes(data, [*known, new])


def _reason(text: str, of: str) -> str:
    """Give a reason on one line, without what no reader sees; raise UpkeepError where nothing is left."""
    said = " ".join(visible(text).split())
    if not said:
        raise UpkeepError(f"{of} needs a reason")
    return said
