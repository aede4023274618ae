"""`kbl board …`: what a whole board needs from time to time, in a checkout. `board.yml` has it as buttons."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from leaderboard.commands.ends import failed
from leaderboard.commands.options import finite
from leaderboard.texts.say import say

if TYPE_CHECKING:
    from collections.abc import Callable

    from leaderboard.github.settings import BoardSettings
    from leaderboard.stages.upkeep import Due

board = typer.Typer(no_args_is_help=True, help="Verbs for a whole board, in a checkout of the repository.")

BoardOption = Annotated[str, typer.Option("--board", help="The board; the first of the settings by itself.")]
ReasonOption = Annotated[str, typer.Option(help="Why: it is published.")]
Done = TypeVar("Done")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.add_typer(board, name="board")


@board.command()
def due(
    *,
    usd: Annotated[
        float | None,
        typer.Option(help="Only what these dollars pay, cheapest first.", min=0.0, callback=finite),
    ] = None,
    name: BoardOption = "",
) -> None:
    """List the entries with kernels still to judge, as by an older evaluator, cheapest first, and how."""
    from leaderboard.github.board import due_on
    from leaderboard.stages.upkeep import affordable

    found = _do(lambda: due_on(_board(name)))
    _show(found if usd is None else affordable(found, usd))


@board.command()
def again(entry: str, *, name: BoardOption = "") -> None:
    """Say how to judge every kernel of an entry again, and what that costs: an appeal."""
    from leaderboard.github.board import due_on
    from leaderboard.github.results import SUBMISSIONS
    from leaderboard.stages.upkeep import UpkeepError, why_not

    def deed() -> list[Due]:
        chosen = _board(name)
        if not (found := due_on(chosen, [entry])):
            raise UpkeepError(why_not(SUBMISSIONS, entry, chosen.name, chosen.precision))
        return found

    _show(_do(deed), fresh=True)


@board.command("second-look")
def second_look(*, name: BoardOption = "") -> None:
    """Say how to judge the first ten ranks again, in other processes at another time."""
    from leaderboard.github.board import due_on
    from leaderboard.github.results import DATA, SUBMISSIONS
    from leaderboard.stages.upkeep import top

    def deed() -> list[Due]:
        chosen = _board(name)
        return due_on(chosen, top(DATA, SUBMISSIONS, chosen.name))

    _show(_do(deed), fresh=True)


@board.command()
def ban(
    login: str,
    *,
    account: Annotated[int, typer.Option("--id", help="The account's number: names change hands.")],
    reason: ReasonOption,
) -> None:
    """Refuse an account's entries from now on (.github/banned.toml)."""
    from leaderboard.files.banned import PATH, Ban
    from leaderboard.stages import upkeep

    _do(lambda: upkeep.ban(PATH, Ban(id=account, login=login, since=_today().isoformat(), reason=reason)))


@board.command()
def unban(*, account: Annotated[int, typer.Option("--id", help="The account's number.")]) -> None:
    """Let an account send entries again (.github/banned.toml)."""
    from leaderboard.files.banned import PATH
    from leaderboard.stages import upkeep

    _do(lambda: upkeep.unban(PATH, account))


@board.command()
def strike(entry: str, kernel: str, *, reason: ReasonOption) -> None:
    """Let a kernel count as missing and say so on the site (data/struck.json, data/notices.json)."""
    from leaderboard.github.results import DATA, SUBMISSIONS
    from leaderboard.stages import upkeep

    _do(lambda: upkeep.strike(DATA, SUBMISSIONS, entry, kernel, why=reason, today=_today()))


def _board(name: str) -> BoardSettings:
    from leaderboard.github.settings import read_settings

    settings = read_settings()
    return settings.board(name) if name else settings.boards[0]


def _show(found: list[Due], *, fresh: bool = False) -> None:
    options = " --data an/empty/folder --work an/empty/folder" if fresh else ""
    for one in found:
        usd = "" if one.cost.usd is None else f", about ${one.cost.usd:.2f}"
        entry = one.submission.entry
        say(f"{entry}: {len(one.kernels)} kernels{usd}: kbl evaluate submissions/{entry}.json{options}")
    total = sum(one.cost.usd or 0.0 for one in found)
    say(f"{len(found)} entries, about ${total:.2f}")


def _do(deed: Callable[[], Done]) -> Done:
    """Do it, and give what it gives; what it cannot do is said in a line."""
    from leaderboard.files.store import StoreError
    from leaderboard.files.submission import InvalidSubmissionError
    from leaderboard.github.settings import SettingsError
    from leaderboard.stages.upkeep import UpkeepError

    try:
        return deed()
    except (UpkeepError, StoreError, SettingsError, InvalidSubmissionError, OSError) as error:
        raise failed(error) from error


def _today() -> date:
    return datetime.now(UTC).date()
