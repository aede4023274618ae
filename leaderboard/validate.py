"""The stage `validate`: reads submissions as inert text and lists every mistake at once.

Owns the list of checks and the order they run in. Never imports or runs a kernel.
"""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelbench.keys import KernelKey

from leaderboard.checks import fields, file, kernels
from leaderboard.checks.document import MAX_FILE_BYTES, Check, Document, Spot
from leaderboard.json_positions import line_and_column

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

KERNEL_CHECKS = (
    Check("kernel-size", kernels.kernel_size),
    Check("kernel-nul", kernels.kernel_nul),
    Check("kernel-coding", kernels.kernel_coding),
    Check("kernel-syntax", kernels.kernel_syntax),
)
"""What each kernel's source must pass."""

CHECKS = FORM_CHECKS + KERNEL_CHECKS

MAX_SHOWN = 20
"""Mistakes listed for one file, unless more are asked for; the rest are counted."""


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """What an author should mend: where (from one), which rule, what was found, and what to write instead."""

    line: int
    column: int
    rule: str
    message: str
    mend: str


@dataclass(frozen=True, kw_only=True)
class Report:
    """What `validate` says of one file: its mistakes by position (none: it is fine), how many more there are.

    `unreadable` says that the machine, not the author, stood in the way. `unscored` are problems such as 1/19
    that have samples but no sample 0, which alone is scored: no mistake, but rarely meant.
    """

    path: Path
    mistakes: tuple[Mistake, ...] = ()
    more: int = 0
    unreadable: bool = False
    sha256: str = ""
    kernels: int = 0
    unscored: tuple[str, ...] = ()

    @property
    def is_fine(self) -> bool:
        """Whether the submission was read and has no mistake."""
        return not self.mistakes


def validate(paths: Iterable[Path], most: int = MAX_SHOWN) -> Iterator[Report]:
    """Check every file, and in every folder all that is no `README.md` and not hidden, one by one."""
    for path in paths:
        for file_path in _submissions(path):
            yield validate_file(file_path, most)


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


def check_bytes(raw: bytes, path: Path, checks: Sequence[Check] = CHECKS, *, most: int = MAX_SHOWN) -> Report:
    """Check a submission's bytes under the name of `path`, which need not exist; list `most` mistakes."""
    document = Document(path.name, raw)
    found: list[tuple[Spot, str]] = []
    for check in checks:
        spots = [(spot, check.rule) for spot in check.find(document)]
        found += spots
        if spots and check.stops:
            break
    return _report(document, path, found, most)


def read_capped(path: Path) -> bytes:
    """Read a file, or of an oversized one just enough to see that it is oversized."""
    with path.open("rb") as stream:
        return stream.read(MAX_FILE_BYTES + 1)


def _submissions(path: Path) -> Sequence[Path]:
    """The files of a folder; what is no folder, or cannot be listed, stands for itself."""
    try:
        if path.is_symlink() or not path.is_dir():
            return [path]
        return sorted(item for item in path.iterdir() if item.name[0] != "." and item.name != "README.md")
    except OSError:
        return [path]


def _report(document: Document, path: Path, found: list[tuple[Spot, str]], most: int) -> Report:
    found.sort(key=lambda item: item[0].offset)
    text = document.raw.decode("utf-8", "replace") if found else ""
    return Report(
        path=path,
        mistakes=tuple(_mistake(text, spot, rule) for spot, rule in found[:most]),
        more=max(0, len(found) - most),
        sha256=hashlib.sha256(document.raw).hexdigest(),
        kernels=0 if found else len(document.kernels),
        unscored=() if found else _unscored(document),
    )


def _unscored(document: Document) -> tuple[str, ...]:
    keys = sorted(map(KernelKey.parse, document.kernels))
    scored = {(key.level, key.problem_id) for key in keys if key.sample == 0}
    rest = dict.fromkeys((key.level, key.problem_id) for key in keys)
    return tuple(f"{level}/{problem_id}" for level, problem_id in rest if (level, problem_id) not in scored)


def _mistake(text: str, spot: Spot, rule: str) -> Mistake:
    line, column = line_and_column(text, spot.offset)
    return Mistake(line=line, column=column, rule=rule, message=spot.message, mend=spot.mend)


def _single(path: Path, rule: str, message: str, mend: str, *, unreadable: bool = False) -> Report:
    mistake = Mistake(line=1, column=1, rule=rule, message=message, mend=mend)
    return Report(path=path, mistakes=(mistake,), unreadable=unreadable)
