"""Checks of the file itself: its name, size, encoding and JSON syntax."""

from __future__ import annotations

import re
from collections.abc import Iterator
from json.decoder import JSONDecodeError

from leaderboard.checks.document import MAX_FILE_BYTES, Document, Spot, quoted
from leaderboard.texts.json_positions import MAX_NUMBER_CHARS

RESERVED_NAMES = frozenset(
    {"all", "baseline", "compare", "eager", "index", "latest", "none", "null", "reference", "schema"}
    | {"aux", "con", "nul", "prn", *(f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10))}
)
"""Names that pages of the board use, and names that some file systems cannot hold."""

_ENTRY = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_SAVE_AS_UTF8 = "save the file as UTF-8 without a byte order mark"
_BYTE_ORDER_MARKS = ((b"\xff\xfe", "UTF-16"), (b"\xfe\xff", "UTF-16"), (b"\xef\xbb\xbf", "UTF-8"))


def file_name(document: Document) -> Iterator[Spot]:
    """Require `<entry>.json`, where the entry is a short lower-case id that nothing else uses."""
    stem = document.name.removesuffix(".json")
    if stem == document.name:
        way = "; kbl pack makes one of kernels" if document.name.endswith(".py") else ""
        yield _name_spot(document, "does not end in .json", f"submissions are flat files <entry>.json{way}")
    elif not _ENTRY.fullmatch(stem) or stem.endswith("."):
        rule = "1-64 of a-z, 0-9, '.', '_' and '-', beginning with a letter or digit, not ending in '.'"
        yield _name_spot(document, "is not an entry id", f"rename the file: {rule}, then .json")
    elif stem.split(".")[0] in RESERVED_NAMES:
        yield _name_spot(document, "is a reserved name", "choose another name for the file")


def file_size(document: Document) -> Iterator[Spot]:
    """Require something, and at most 16 MiB."""
    if len(document.raw) > MAX_FILE_BYTES:
        found = f"the file has more than {MAX_FILE_BYTES:,} bytes"
        yield Spot(offset=0, message=found, mend=f"submit at most {MAX_FILE_BYTES // 2**20} MiB")
    elif not document.raw.strip():
        yield Spot(offset=0, message="the file is empty", mend="write a submission as in CONTRIBUTING.md")


def encoding(document: Document) -> Iterator[Spot]:
    """Require strict UTF-8 without a byte order mark."""
    for mark, name in _BYTE_ORDER_MARKS:
        if document.raw.startswith(mark):
            found = f"the file starts with a byte order mark ({name})"
            yield Spot(offset=0, message=found, mend=_SAVE_AS_UTF8)
            return
    try:
        document.raw.decode("utf-8")
    except UnicodeDecodeError as error:
        found = f"byte {error.start} (0x{document.raw[error.start]:02x}) is not UTF-8"
        yield Spot(offset=error.start, message=found, mend=_SAVE_AS_UTF8)


def json_syntax(document: Document) -> Iterator[Spot]:
    """Require one JSON value of bounded depth."""
    try:
        _ = document.walk
    except JSONDecodeError as error:
        near = document.text[error.pos : error.pos + 20]
        found = f"{error.msg}, found {quoted(near) if near else 'the end of the file'}"
        yield Spot(offset=error.pos, message=found, mend="write the file with a JSON library, not by hand")


def repeated_keys(document: Document) -> Iterator[Spot]:
    """Require every key once in its object: readers disagree on which of two counts."""
    for key, offset in document.walk.repeated:
        yield Spot(offset=offset, message=f"key {quoted(key)} is repeated", mend="keep one of the two")


def number_range(document: Document) -> Iterator[Spot]:
    """Require numbers that every reader can hold."""
    for digits, offset in document.walk.bad_numbers:
        found = f"number {quoted(digits, 20)} is out of range"
        mend = f"use a finite number of at most {MAX_NUMBER_CHARS} characters"
        yield Spot(offset=offset, message=found, mend=mend)


def _name_spot(document: Document, message: str, mend: str) -> Spot:
    return Spot(offset=0, message=f"file name {quoted(document.name, 80)} {message}", mend=mend)
