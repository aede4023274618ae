"""What is wrong with one submission: every mistake at once, with its place and its mend.

Owns the list of checks and the order they run in. Never imports or runs a kernel.
"""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from kernel_evaluator.records.keys import KernelKey

from leaderboard.checks import backend, fields, file, kernels, precision
from leaderboard.checks.document import MAX_FILE_BYTES, Check, Document, Spot
from leaderboard.texts.json_positions import line_and_column

FORM_CHECKS = (
    Check("file-name", file.file_name),
    Check("file-size", file.file_size, stops=True),
    Check("encoding", file.encoding, stops=True),
    Check("json-syntax", file.json_syntax, stops=True),
    Check("repeated-key", file.repeated_keys),
    Check("number-range", file.number_range, stops=True),
    Check("field", fields.fields),
    Check("surrogate", kernels.surrogates),
)
"""What a submission must pass to be read at all."""

CHECKS = (
    *FORM_CHECKS,
    Check("kernel-size", kernels.kernel_size, stops=True),
    Check("kernel-coding", kernels.kernel_coding),
)
"""What a submission must pass to be sent."""

WARNINGS = (
    Check("backend", backend.backend_known),
    Check("precision", precision.precision_known),
    Check("reference", precision.reference_runs),
    Check("kernel-nul", kernels.kernel_nul),
    Check("kernel-syntax", kernels.kernel_syntax),
)
"""What an author may want to know. A kernel is judged as it is: one that does not parse fails to compile."""

MAX_FOUND = 1000
"""Mistakes that are looked for by one rule, so that a file of nothing else is soon done with."""

MAX_SHOWN = 20
"""Mistakes listed for one file, unless more are asked for; the rest are counted."""


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """What an author should or may mend: where (from one), which rule, what was found, and the mend."""

    line: int
    column: int
    rule: str
    message: str
    mend: str


@dataclass(frozen=True, kw_only=True)
class Report:
    """What `validate` says of one file: its mistakes by position (none: it is fine), how many more there are.

    `unreadable` says that there was nothing to read, which is no mistake in a submission. `unscored` are
    problems such as 1/19 that have samples but no sample 0, which alone is scored: no mistake, but rarely
    meant. Nor are `warnings`, of which there are `more_warnings` beyond those listed.
    """

    path: Path
    mistakes: tuple[Mistake, ...] = ()
    more: int = 0
    warnings: tuple[Mistake, ...] = ()
    more_warnings: int = 0
    unreadable: bool = False
    sha256: str = ""
    kernels: int = 0
    unscored: tuple[str, ...] = ()

    @property
    def is_fine(self) -> bool:
        """Whether the submission was read and has no mistake."""
        return not self.mistakes


def validate_file(path: Path, most: int = MAX_SHOWN) -> Report:
    """Check one file. A file that cannot be read is a report too."""
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            found = "a submission must be a regular file, found a folder, a link or a device"
            return _single(path, "file-kind", found, "commit the JSON file itself")
        raw = read_capped(path)
    except OSError as error:
        found = f"cannot be read: {error.strerror}"
        return _single(path, "readable", found, "check the path", unreadable=True)
    return check_bytes(raw, path, most=most)


def report_nothing_in(folder: Path) -> Report:
    """Say that a folder holds no submission: nobody asks on purpose for a check of nothing."""
    found = "there is no submission in this folder"
    return _single(folder, "folder", found, "name a submission, or the folder of them", unreadable=True)


def check_bytes(raw: bytes, path: Path, checks: Sequence[Check] = CHECKS, *, most: int = MAX_SHOWN) -> Report:
    """Check a submission's bytes under the name of `path`, which need not exist; list `most` mistakes."""
    document = Document(path.name, raw)
    found: list[tuple[Spot, str]] = []
    for check in checks:
        spots = _found(check, document)
        found += spots
        if spots and check.stops:
            return _report(document, path, found, [], most)
    pointed = [each for check in WARNINGS if checks is CHECKS for each in _found(check, document)]
    return _report(document, path, found, pointed, most)


def read_capped(path: Path) -> bytes:
    """Read a file, or of an oversized one just enough to see that it is oversized."""
    with path.open("rb") as stream:
        return stream.read(MAX_FILE_BYTES + 1)


def _found(check: Check, document: Document) -> list[tuple[Spot, str]]:
    return [(spot, check.rule) for spot in islice(check.find(document), MAX_FOUND)]


def _report(
    document: Document, path: Path, found: list[tuple[Spot, str]], pointed: list[tuple[Spot, str]], most: int
) -> Report:
    text = document.raw.decode("utf-8", "replace") if found or pointed else ""
    mistakes, warnings = (sorted(each, key=lambda item: item[0].offset) for each in (found, pointed))
    return Report(
        path=path,
        mistakes=tuple(_mistake(text, spot, rule) for spot, rule in mistakes[:most]),
        more=max(0, len(found) - most),
        warnings=tuple(_mistake(text, spot, rule) for spot, rule in warnings[:most]),
        more_warnings=max(0, len(pointed) - most),
        sha256=hashlib.sha256(document.raw).hexdigest(),
        kernels=0 if found else len(document.kernels),
        unscored=() if found else unscored(map(KernelKey.parse, document.kernels)),
    )


def unscored(keys: Iterable[KernelKey]) -> tuple[str, ...]:
    """Name the problems, such as 1/19, that have samples but no sample 0."""
    found = sorted(keys)
    scored = {(key.level, key.problem_id) for key in found if key.sample == 0}
    rest = dict.fromkeys((key.level, key.problem_id) for key in found)
    return tuple(f"{level}/{problem_id}" for level, problem_id in rest if (level, problem_id) not in scored)


def _mistake(text: str, spot: Spot, rule: str) -> Mistake:
    line, column = line_and_column(text, spot.offset)
    return Mistake(line=line, column=column, rule=rule, message=spot.message, mend=spot.mend)


def _single(path: Path, rule: str, message: str, mend: str, *, unreadable: bool = False) -> Report:
    mistake = Mistake(line=1, column=1, rule=rule, message=message, mend=mend)
    return Report(path=path, mistakes=(mistake,), unreadable=unreadable)
