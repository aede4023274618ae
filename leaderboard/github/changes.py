"""What a pull request changes, judged: is it one entry, sent by somebody who may send it? Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from leaderboard.inert import one_line

FOLDER = "submissions/"
MAX_LISTED = 300
"""Files that a comparison lists at most: with as many, there may be more."""
REGULAR_FILE = "100644"
WRITERS = frozenset({"write", "maintain", "admin"})
"""Roles that may start an evaluation, and change anybody's entry."""

Kind = Literal["code", "entry", "withdrawal"]


@dataclass(frozen=True, kw_only=True)
class ChangedFile:
    """One file of the comparison: its path, what happened to it, and the path it had before a rename."""

    path: str
    status: str
    previous_path: str | None = None


@dataclass(frozen=True, kw_only=True)
class Change:
    """What the pull request is: other work (`code`), an entry sent, or entries withdrawn; what is wrong."""

    kind: Kind
    path: str = ""
    withdrawn: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Sender:
    """The pull request's author: number of the account and its role in the repository."""

    id: int
    role: str


def judge_changes(files: Sequence[ChangedFile]) -> Change:
    """Say what the changed files amount to; every problem at once."""
    ours = [file for file in files if any(_is_ours(path) for path in _paths(file))]
    if not ours:
        return Change(kind="code")
    removed = tuple(file.path for file in ours if file.status == "removed")
    sent = [file for file in ours if file.status != "removed"]
    problems = [*_strays(files), *_renames(sent), *_crowd(sent, removed)]
    if len(files) >= MAX_LISTED:
        problems.append(f"it changes {MAX_LISTED} files or more; send one entry a pull request")
    if not sent:
        return Change(kind="withdrawal", withdrawn=removed, problems=tuple(problems))
    return Change(kind="entry", path=sent[0].path, withdrawn=removed, problems=tuple(problems))


def judge_mode(path: str, mode: str | None) -> list[str]:
    """Require a plain file: a symlink, a submodule or an executable is refused."""
    if mode == REGULAR_FILE:
        return []
    kinds = {
        "120000": "a symbolic link",
        "160000": "a submodule",
        "100755": "an executable file",
        None: "missing",
    }
    found = kinds.get(mode, f"of mode {mode}")
    return [f"{one_line(path)} must be a plain file (mode {REGULAR_FILE}), it is {found}"]


def judge_rights(path: str, sender: Sender, owners: Iterable[int]) -> list[str]:
    """Require that an entry on main is changed by the people who sent it, or by a maintainer."""
    if sender.role in WRITERS or sender.id in set(owners):
        return []
    return [
        f"{one_line(path)} is on the board already; those who sent it, or maintainers, may change it: "
        "send your own entry under another file name"
    ]


def _paths(file: ChangedFile) -> list[str]:
    return [path for path in (file.path, file.previous_path) if path]


def _is_ours(path: str) -> bool:
    return path == FOLDER.rstrip("/") or (path.startswith(FOLDER) and path != FOLDER + "README.md")


def _strays(files: Sequence[ChangedFile]) -> list[str]:
    strays = [path for file in files for path in _paths(file) if not _is_place_of_entries(path)]
    shown = ", ".join(one_line(path) for path in strays[:5])
    more = f" and {len(strays) - 5} more" if len(strays) > 5 else ""
    text = f"to send an entry, change submissions/<entry>.json alone; this also changes {shown}{more}"
    return [text] if strays else []


def _is_place_of_entries(path: str) -> bool:
    return path.startswith(FOLDER) and path.endswith(".json") and "/" not in path.removeprefix(FOLDER)


def _renames(sent: Sequence[ChangedFile]) -> list[str]:
    return [
        f"{one_line(file.path)} was renamed; withdraw the old entry first, then send the new one"
        for file in sent
        if file.previous_path and file.status in ("renamed", "copied")
    ]


def _crowd(sent: Sequence[ChangedFile], removed: Sequence[str]) -> list[str]:
    if len(sent) > 1:
        names = ", ".join(one_line(file.path) for file in sent[:5])
        return [f"send one entry a pull request; it changes {len(sent)}: {names}"]
    if sent and removed:
        return ["send one entry a pull request; withdraw another in a pull request of its own"]
    return []
