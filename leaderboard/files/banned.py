"""Who may not send entries, with reasons: `.github/banned.toml`. Accounts go by number, not by name."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from leaderboard.files.store import StoreError, write_atomically
from leaderboard.files.typed import read_toml, require_day, typed

PATH = Path(".github/banned.toml")
_HEAD = "# Whose entries are not evaluated, and why. kbl board ban and kbl board unban write this file.\n"


@dataclass(frozen=True, kw_only=True)
class Ban:
    """One account that may not send entries: its number, its name then, since when and why."""

    id: int
    login: str
    since: str
    reason: str

    def __post_init__(self) -> None:
        require_day("since", self.since)


def read_bans(path: Path = PATH) -> tuple[Ban, ...]:
    """Read the list; nobody where there is no file. A mistake in it raises StoreError."""
    if not path.is_file():
        return ()
    try:
        values = read_toml(path)
        listed = values.pop("banned", [])
        if values or not isinstance(listed, list):
            raise ValueError(
                f"must hold [[banned]] tables alone, got {', '.join(values) or 'another banned'}"
            )
        return tuple(typed(Ban, item, f"ban {number}") for number, item in enumerate(listed, 1))
    except ValueError as error:
        raise StoreError(f"{path}: not a list of bans: {error}") from error


def write_bans(bans: Iterable[Ban], path: Path = PATH) -> None:
    """Write the list, oldest first."""
    tables = [
        "\n[[banned]]\n"
        f"id = {ban.id}\n"
        f"login = {_quoted(ban.login)}\n"
        f"since = {_quoted(ban.since)}\n"
        f"reason = {_quoted(ban.reason)}\n"
        for ban in sorted(bans, key=lambda ban: (ban.since, ban.id))
    ]
    write_atomically(path, _HEAD + "".join(tables))


def _quoted(text: str) -> str:
    """Quote as TOML does: in it a character is itself, never the two halves that JSON writes for an emoji."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
