"""The verb `board`: what a maintainer asks of a whole board. `kbl board` is the same at home."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from leaderboard.files.banned import PATH as BANNED
from leaderboard.files.banned import Ban
from leaderboard.files.ledger import read_all
from leaderboard.github.again import queue_merged
from leaderboard.github.changes import WRITERS
from leaderboard.github.event import WorkflowRunner
from leaderboard.github.gitrepo import RemoteBranch, commit_to_remote
from leaderboard.github.host import Host
from leaderboard.github.results import DATA, SUBMISSIONS, bring_results
from leaderboard.github.say import log
from leaderboard.github.settings import BoardSettings, RepositorySettings
from leaderboard.stages import upkeep
from leaderboard.stages.upkeep import Due, UpkeepError


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What was filled in beside the button; what a verb does not use may be empty."""

    verb: str
    board: str = ""
    entry: str = ""
    kernel: str = ""
    account: str = ""
    login: str = ""
    reason: str = ""

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Asked:
        """Read it from the variables of the job."""
        return cls(**{name: environment.get(name.upper(), "").strip() for name in cls.__annotations__})

    @property
    def number(self) -> int:
        """The account's number; raise UpkeepError where it is none."""
        if not (self.account.isascii() and self.account.isdecimal()):
            raise UpkeepError(f"the account must be given by its number, got {self.account[:40]!r}")
        return int(self.account)


def run_board(host: Host, runner: WorkflowRunner, settings: RepositorySettings, asked: Asked) -> bool:
    """Do what was asked; give whether it could be done. Raises HostError, GitError, StoreError."""
    if runner.event_name != "schedule" and host.role(runner.actor) not in WRITERS:
        log("the verbs of the board are for people with write access")
        return False
    now = datetime.now(UTC)
    try:
        if runner.event_name == "schedule":
            _look_everywhere(host, runner, settings, asked, now)
        elif asked.verb in ("due", "again", "second-look"):
            _judge(host, runner, settings, asked, now)
        else:
            _change(runner, settings, asked, now)
    except UpkeepError as error:
        log(str(error))
        return False
    return True


def _look_everywhere(
    host: Host, runner: WorkflowRunner, settings: RepositorySettings, asked: Asked, now: datetime
) -> None:
    """Do for every board what can be done; a board without ranks is no fault."""
    for board in settings.boards:
        try:
            _judge(host, runner, settings, replace(asked, board=board.name), now)
        except UpkeepError as error:
            log(str(error))


def _judge(
    host: Host, runner: WorkflowRunner, settings: RepositorySettings, asked: Asked, now: datetime
) -> None:
    bring_results(settings, runner)
    board = settings.board(asked.board) if asked.board else settings.boards[0]
    if board.closed_because:
        raise UpkeepError(f"nothing can be judged for {board.name}: {board.closed_because}")
    listed = due_on(board, _named(asked, board))
    if asked.verb == "due":
        left = _left_of_month(settings, now)
        listed = upkeep.affordable(listed, left)
        log(f"{len(listed)} entries are due and can be paid from the month's ${left:.2f}")
    elif not listed:
        raise UpkeepError(_nothing(asked, board))
    queue_merged(host, runner, settings, board, listed=listed, verb=asked.verb, now=now)


def _named(asked: Asked, board: BoardSettings) -> list[str] | None:
    if asked.verb == "second-look":
        return upkeep.top(DATA, SUBMISSIONS, board.name)
    if asked.verb == "again" and not asked.entry:
        raise UpkeepError("again needs an entry, got none: name it beside the button")
    return [asked.entry] if asked.verb == "again" else None


def _nothing(asked: Asked, board: BoardSettings) -> str:
    if asked.verb == "again":
        return upkeep.why_not(SUBMISSIONS, asked.entry, board.name, board.precision)
    return f"no merged entry of the top ten can be judged for {board.name}"


def due_on(board: BoardSettings, whole: list[str] | None = None) -> list[Due]:
    """List what is due on a board, cheapest first; where entries are named, theirs alone and every kernel."""
    return upkeep.due(
        DATA,
        SUBMISSIONS,
        board.name,
        engine=board.engine,
        gpu=board.gpu,
        precision=board.precision,
        whole=whole,
    )


def _left_of_month(settings: RepositorySettings, now: datetime) -> float:
    month = now.date().isoformat()[:7]
    return settings.money.usd_per_month - sum(item.usd for item in read_all(DATA) if item.month == month)


def _change(runner: WorkflowRunner, settings: RepositorySettings, asked: Asked, now: datetime) -> None:
    """Change files of the base branch; what is struck lies beside the results."""
    today = now.date()

    def ban(clone: Path) -> str:
        entry = Ban(id=asked.number, login=asked.login, since=today.isoformat(), reason=asked.reason)
        upkeep.ban(clone / BANNED, entry)
        return f"board: ban {asked.number}"

    def unban(clone: Path) -> str:
        upkeep.unban(clone / BANNED, asked.number)
        return f"board: unban {asked.number}"

    def strike(clone: Path) -> str:
        upkeep.strike(
            clone / DATA, SUBMISSIONS.resolve(), asked.entry, asked.kernel, why=asked.reason, today=today
        )
        return f"board: strike {asked.entry} {asked.kernel}"

    verbs: dict[str, Callable[[Path], str]] = {"ban": ban, "unban": unban, "strike": strike}
    if asked.verb not in verbs:
        raise UpkeepError(f"there is no verb {asked.verb!r}")
    commit_to_remote(
        RemoteBranch(
            url=runner.clone_url, ref=settings.base_ref, start_ref=settings.base_ref, token=runner.token
        ),
        verbs[asked.verb],
    )
    log(f"{asked.verb}: done")
