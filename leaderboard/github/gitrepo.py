"""Commits files to a branch of the host with plain git, in a clone of its own. Knows no format and no API.

The token travels in the environment of the git process alone: never on a command line, never in a file.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import tempfile
import time
from base64 import b64encode
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from leaderboard.texts.inert import one_line

BOT_NAME = "github-actions[bot]"
BOT_MAIL = "41898282+github-actions[bot]@users.noreply.github.com"
ATTEMPTS = 40
"""Tries at most, for some minutes. Of sixty jobs that write one branch at once the last needs a dozen."""
LONGEST_PAUSE_S = 20.0
GIT_TIMEOUT_S = 300.0
Done = TypeVar("Done")

_PASSES = (
    "fetch first",
    "non-fast-forward",
    "cannot lock ref",
    "failed to update ref",
    "incorrect old value",
    "returned error: 429",
    "returned error: 5",
    "HTTP 5",
    "Could not resolve host",
    "Failed to connect",
    "Connection reset",
    "Connection timed out",
    "early EOF",
    "unexpected disconnect",
)
"""What git says where another push came in between, or the host is away for a while. A branch's rules refuse
in other words, every time.
"""
_NO_BRANCH = re.compile(r"Remote branch .* not found|couldn't find remote ref")


class GitError(Exception):
    """git failed; the message holds the end of what it said."""


class NoBranchError(GitError):
    """The host has no such branch."""


class PassingError(GitError):
    """Somebody else pushed first, or the host could not be reached: the next try may go well."""


@dataclass(frozen=True, kw_only=True)
class RemoteBranch:
    """A branch on the host: where git reaches it, the branch that a new one starts from, and the token.

    Without a branch to start from, a new one starts empty.
    """

    url: str
    ref: str
    start_ref: str = ""
    token: str = ""


def commit_to_remote(
    remote: RemoteBranch, change: Callable[[Path], str], *, sleep: Callable[[float], None] = time.sleep
) -> bool:
    """Let `change` work in a fresh clone and push what it changed; give whether anything was.

    `change` gets the clone's folder and gives the commit's message. When somebody else pushes
    first, it is called again on the branch as it then is: it must work from what it finds there.
    """

    def attempt() -> bool:
        with tempfile.TemporaryDirectory(prefix="kbl-publish-") as name:
            return _commit_once(remote, change, Path(name) / "clone")

    return _patiently(attempt, sleep)


def fetch_folders(remote: RemoteBranch, folders: Sequence[str], into: Path) -> list[str]:
    """Bring folders of the remote branch into a work tree, and name those that it has."""
    return _patiently(lambda: _fetch_once(remote, folders, into), time.sleep)


def _patiently(attempt: Callable[[], Done], sleep: Callable[[float], None]) -> Done:
    for failed in range(ATTEMPTS - 1):
        with suppress(PassingError):
            return attempt()
        sleep(random.uniform(0, min(0.4 * 2**failed, LONGEST_PAUSE_S)))  # else all come again at once
    return attempt()


def _fetch_once(remote: RemoteBranch, folders: Sequence[str], into: Path) -> list[str]:
    try:
        _git(remote, "-C", str(into), "fetch", "--depth=1", remote.url, f"refs/heads/{remote.ref}")
    except NoBranchError:
        return []
    listed = _git(remote, "-C", str(into), "ls-tree", "-d", "--name-only", "FETCH_HEAD", "--", *folders)
    found = listed.splitlines()
    if found:
        _git(remote, "-C", str(into), "checkout", "FETCH_HEAD", "--", *found)
    return found


def _commit_once(remote: RemoteBranch, change: Callable[[Path], str], clone: Path) -> bool:
    _begin(remote, clone)
    message = change(clone)
    _git(remote, "-C", str(clone), "add", "--all")
    if not _git(remote, "-C", str(clone), "status", "--porcelain"):
        return False
    who = ["-c", f"user.name={BOT_NAME}", "-c", f"user.email={BOT_MAIL}"]
    _git(remote, "-C", str(clone), *who, "commit", "--quiet", "--no-verify", "-m", message)
    _git(remote, "-C", str(clone), "push", "--quiet", "origin", f"HEAD:refs/heads/{remote.ref}")
    return True


def _begin(remote: RemoteBranch, clone: Path) -> None:
    """Clone the branch; where it is not there, the one that it starts from, or begin it empty.

    No hooks come along: neither the machine's nor git's examples.
    """
    quiet = ("--quiet", "--template=")
    options = ("clone", *quiet, "--depth=1", "--branch")
    try:
        _git(remote, *options, remote.ref, "--", remote.url, str(clone))
    except NoBranchError:
        if remote.start_ref:
            _git(remote, *options, remote.start_ref, "--", remote.url, str(clone))
        else:
            _git(remote, "init", *quiet, "--initial-branch", remote.ref, str(clone))
            _git(remote, "-C", str(clone), "remote", "add", "origin", remote.url)


def _git(remote: RemoteBranch, *arguments: str) -> str:
    verb = arguments[2] if arguments[0] == "-C" else arguments[0]
    try:
        done = subprocess.run(
            ["git", *arguments],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=GIT_TIMEOUT_S,
            env=_environment(remote),
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise GitError(f"git {verb} took longer than {GIT_TIMEOUT_S:g} s") from error
    if done.returncode:
        said = f"git {verb} failed: {one_line(done.stderr[-2000:], 2000)}"
        raise _kind_of(done.stderr)(said)
    return done.stdout.strip()


def _kind_of(said: str) -> type[GitError]:
    if any(words in said for words in _PASSES):
        return PassingError
    return NoBranchError if _NO_BRANCH.search(said) else GitError


def _environment(remote: RemoteBranch) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    settings = {
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "LC_ALL": "C",  # failures are told apart by git's English words
    }
    options = {"maintenance.auto": "false"}  # a clone for one commit needs none
    if remote.token:
        basic = b64encode(f"x-access-token:{remote.token}".encode()).decode()
        options[f"http.{remote.url}.extraHeader"] = f"Authorization: Basic {basic}"
    for number, (name, value) in enumerate(options.items()):
        settings |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    return {**kept, **settings, "GIT_CONFIG_COUNT": str(len(options))}
