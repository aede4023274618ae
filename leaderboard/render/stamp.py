"""Names the code and the templates that figures and pages are made with."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

import kernel_evaluator
from kernel_evaluator.records.places import PACKAGE, PROBLEM_SET
from kernel_evaluator.records.version import evaluator_sha256

from leaderboard.light.roofline import ROOFLINE
from leaderboard.resources import SITE
from leaderboard.stages.known import Known


@cache
def code_stamp() -> str:
    """Name every file whose change may change a figure or a page."""
    board = Path(__file__).resolve().parent.parent
    judge = Path(kernel_evaluator.__file__).resolve().parent
    folders = [SITE, *(board / name for name in ("render", "light", "stages", "texts", "files"))]
    folders += [judge / name for name in ("records", "scores", "machine")]
    files = [path for folder in folders for path in sorted(folder.rglob("*")) if path.is_file()]
    files += [*sorted(judge.glob("*.py")), ROOFLINE]
    return digest(*(path.read_bytes() for path in files if path.suffix != ".pyc" and path.is_file()))


def digest(*parts: object) -> str:
    """Name some values by their content."""
    return hashlib.sha256(repr(parts).encode("utf-8", "backslashreplace")).hexdigest()


def present_evaluator(known: Known) -> str:
    """Give the digest of today's evaluator; it parses the whole of it, unless its files are known."""
    tables = [PROBLEM_SET / name for name in ("figures.json", "sharpness.json")]
    files = [*sorted(PACKAGE.rglob("*.py")), *sorted(PACKAGE.rglob("*.h")), *tables]
    stamp = digest(*(path.read_bytes() for path in files if path.is_file()))
    return known.all_of({"": stamp}, lambda _: {"": evaluator_sha256()})[""]
