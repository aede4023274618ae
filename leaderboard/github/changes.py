"""What a pull request changes, judged: is it one entry, sent by somebody who may send it? Pure.

Everything is decided from whole trees, at the commit where the pull request forked and at its head. A list of
changed files would not do: hosts cut it, and what is cut off would be changed unseen.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from leaderboard.texts.inert import one_line
from leaderboard.texts.lists import first_words

ENTRIES = "submissions"
FOLDER = ENTRIES + "/"
RECORDS = "data"
README = "README.md"
REGULAR_FILE = "100644"
FOLDER_MODE = "040000"
WRITERS = frozenset({"write", "maintain", "admin"})
"""Roles that may start an evaluation, and change anybody's entry."""
MAX_WITHDRAWN = 5
"""Entries that one pull request withdraws at most: who owns each is asked of the host."""

NAMES_SHOWN = 5

Kind = Literal["code", "entry", "withdrawal"]


@dataclass(frozen=True, kw_only=True)
class TreeItem:
    """A file or folder as git names it: mode, content's name, and size in bytes."""

    mode: str
    sha: str
    size: int = 0


Listing = Mapping[str, TreeItem]
"""What stands in one folder, by name."""


@dataclass(frozen=True, kw_only=True)
class Trees:
    """What stands at one commit: in the root, and in the folder of the entries, each listed whole."""

    root: Listing
    entries: Listing = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Change:
    """What the pull request is: other work (`code`), an entry sent, or entries withdrawn; what is wrong.

    `touches_records` is true where it changes what evaluations have recorded.
    """

    kind: Kind
    path: str = ""
    withdrawn: tuple[str, ...] = ()
    touches_records: bool = False
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Sender:
    """The pull request's author: number of the account and its role in the repository."""

    id: int
    role: str


def judge_changes(before: Trees, after: Trees) -> Change:
    """Say what leads from one commit's trees to the other's; every problem at once."""
    touched = _differing(before.root, after.root)
    entries = [name for name in _differing(before.entries, after.entries) if name != README]
    records = RECORDS in touched
    problems = [*_not_a_folder(after.root), *_lookalikes(after.root, touched)]
    if not entries:
        return Change(kind="code", touches_records=records, problems=tuple(problems))
    removed = tuple(FOLDER + name for name in entries if name not in after.entries)
    sent = [name for name in entries if name in after.entries]
    problems += [*_strays(touched, before, after), *_misplaced(sent), *_crowd(sent, removed)]
    if not sent:
        return Change(kind="withdrawal", withdrawn=removed, touches_records=records, problems=tuple(problems))
    return Change(
        kind="entry",
        path=FOLDER + sent[0],
        withdrawn=removed,
        touches_records=records,
        problems=tuple(problems),
    )


def judge_mode(path: str, mode: str) -> list[str]:
    """Require a plain file: a symlink, a submodule, a folder or an executable is refused."""
    if mode == REGULAR_FILE:
        return []
    kinds = {
        "120000": "a symbolic link",
        "160000": "a submodule",
        "100755": "an executable file",
        FOLDER_MODE: "a folder",
    }
    found = kinds.get(mode, f"of mode {mode}")
    return [f"{one_line(path)} must be a plain file (mode {REGULAR_FILE}), it is {found}"]


def judge_rights(path: str, sender: Sender, owners: Iterable[int], *, is_there: bool) -> list[str]:
    """Require that an entry is changed by the people who sent it, or by a maintainer.

    A name stays theirs when the entry is withdrawn: what is recorded under it was measured on their kernels.
    """
    known = set(owners)
    if sender.role in WRITERS or sender.id in known or not (known or is_there):
        return []
    since = "is on the board already" if is_there else "was on the board before"
    return [
        f"{one_line(path)} {since}; those who sent it, or maintainers, may change it: "
        "send your own entry under another file name"
    ]


def judge_records(sender: Sender) -> list[str]:
    """Require that what evaluations recorded is changed by maintainers alone."""
    if sender.role in WRITERS:
        return []
    return [
        f"{RECORDS}/ holds what evaluations recorded, and maintainers alone change it by hand; leave it out"
    ]


def _differing(before: Listing, after: Listing) -> list[str]:
    return sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))


def _not_a_folder(root: Listing) -> list[str]:
    found = root.get(ENTRIES)
    if found is None or found.mode == FOLDER_MODE:
        return []
    return [f"{ENTRIES} must stay a folder; it is of mode {found.mode}"]


def _lookalikes(root: Listing, touched: Iterable[str]) -> list[str]:
    """Folders that some file systems and most readers take for that of the entries."""
    found = [name for name in touched if name in root and name != ENTRIES and _folded(name) == ENTRIES]
    return [f"{one_line(name)} looks like {ENTRIES}/; entries go to {FOLDER}<entry>.json" for name in found]


def _folded(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold().strip(". ")


def _strays(touched: Iterable[str], before: Trees, after: Trees) -> list[str]:
    strays = [name for name in touched if name != ENTRIES]
    if before.entries.get(README) != after.entries.get(README):
        strays.append(FOLDER + README)
    shown = first_words([one_line(name) for name in strays], NAMES_SHOWN)
    text = f"to send an entry, change {FOLDER}<entry>.json alone; this also changes {shown}"
    return [text] if strays else []


def _misplaced(sent: Iterable[str]) -> list[str]:
    names = [one_line(FOLDER + name) for name in sent if not name.endswith(".json")]
    text = f"an entry is {FOLDER}<entry>.json; this adds {first_words(names, NAMES_SHOWN)}"
    return [text] if names else []


def _crowd(sent: list[str], removed: tuple[str, ...]) -> list[str]:
    if len(sent) > 1:
        names = ", ".join(one_line(FOLDER + name) for name in sent[:NAMES_SHOWN])
        return [f"send one entry a pull request; it changes {len(sent)}: {names}"]
    if sent and removed:
        return ["send one entry a pull request; withdraw or rename another in a pull request of its own"]
    if len(removed) > MAX_WITHDRAWN:
        return [f"withdraw at most {MAX_WITHDRAWN} entries a pull request; this withdraws {len(removed)}"]
    return []
