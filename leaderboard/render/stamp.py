"""Names the code and the templates that figures and pages are made with."""

from __future__ import annotations

import hashlib
from functools import cache
from itertools import chain
from pathlib import Path

from kernel_evaluator.records.places import PACKAGE, PROBLEM_SET
from kernel_evaluator.records.version import evaluator_sha256

from leaderboard.resources import SITE
from leaderboard.stages.known import Known

_BOARD = Path(__file__).resolve().parent.parent


def made_with() -> list[Path]:
    """List the files whose change may change a figure or a page: both packages whole, templates, tables."""
    files = chain(*(sorted(folder.rglob("*")) for folder in (_BOARD, PACKAGE, SITE)))
    return [
        *(path for path in files if path.suffix != ".pyc" and path.is_file()),
        *sorted(PROBLEM_SET.glob("*.json")),
    ]


@cache
def code_stamp() -> str:
    """Name those files by what they hold."""
    return digest(*(hashlib.sha256(path.read_bytes()).digest() for path in made_with()))


def digest(*parts: object) -> str:
    """Name some values by their content."""
    return hashlib.sha256(repr(parts).encode("utf-8", "backslashreplace")).hexdigest()


def present_evaluator(known: Known) -> str:
    """Give the digest of today's evaluator; it parses the whole of it, unless its files are known."""
    return known.all_of({"": code_stamp()}, lambda _: {"": evaluator_sha256()})[""]
