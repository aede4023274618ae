"""Where every value of a JSON text stands, which keys repeat, which numbers are out of range.

Reads one text once and without recursion, so that hostile nesting costs nothing. Builds no values.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from json import decoder
from json.decoder import JSONDecodeError
from math import isinf

MAX_DEPTH = 16
MAX_NUMBER_CHARS = 40
MAX_FAULTS = 1000
"""Repeated keys, and numbers out of range, that are kept of one text."""

_skip = re.compile(r"[ \t\n\r]*").match
_number = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?").match
_not_json = re.compile(r"-?(?:NaN|Infinity)").match
_literal = re.compile(r"true|false|null").match
_string: Callable[[str, int, bool], tuple[str, int]] = decoder.scanstring  # type: ignore[attr-defined]
_hex = "[0-9a-fA-F]"
_escaped = re.compile(
    rf"\\u[dD][89abAB]{_hex}{{2}}\\u[dD][c-fC-F]{_hex}{{2}}|\\u{_hex}{{4}}|\\.|.", re.DOTALL
).match


@dataclass(frozen=True)
class Walk:
    """What one JSON text holds, by JSON pointer; offsets count characters from the text's start."""

    values: dict[str, int] = field(default_factory=dict)
    keys: dict[str, int] = field(default_factory=dict)
    repeated: list[tuple[str, int]] = field(default_factory=list)
    bad_numbers: list[tuple[str, int]] = field(default_factory=list)
    """Numbers that are too long or overflow, as written."""


@dataclass(slots=True)
class _Open:
    """An object or array whose closing bracket has not been read yet."""

    pointer: str
    closer: str
    keys: set[str] = field(default_factory=set)
    length: int = 0


def walk(text: str) -> Walk:
    """Read the text; raise JSONDecodeError where it is not exactly one JSON value of at most MAX_DEPTH."""
    found = Walk()
    stack: list[_Open] = []
    index = _enter(text, _past_space(text, 0), "", stack, found)
    while stack:
        if len(stack) > MAX_DEPTH:
            raise JSONDecodeError(f"Nested deeper than {MAX_DEPTH} levels", text, index - 1)
        index = _advance(text, _past_space(text, index), stack, found)
    index = _past_space(text, index)
    if index != len(text):
        raise JSONDecodeError("Something follows the end of the JSON value", text, index)
    return found


def pointer_of(path: tuple[str | int, ...]) -> str:
    """Write a path of keys and indices as a JSON pointer."""
    return "".join(f"/{_escape(str(part))}" for part in path)


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    """Both count from one, as editors and annotations do."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def offset_inside(text: str, start: int, index: int) -> int:
    """Where the decoded character `index` of the string that opens at `start` stands in the text."""
    at = start + 1
    for _ in range(index):
        match = _escaped(text, at)
        if match is None or match[0] == '"':
            break
        at = match.end()
    return at


def _advance(text: str, index: int, stack: list[_Open], found: Walk) -> int:
    frame = stack[-1]
    if text.startswith(frame.closer, index):
        stack.pop()
        return index + 1
    if frame.length:
        index = _expect(text, ",", index)
    if frame.closer == "}":
        key, index = _key(text, index, frame, found)
        index = _expect(text, ":", index)
    else:
        key = str(frame.length)
    frame.length += 1
    return _enter(text, index, f"{frame.pointer}/{key}", stack, found)


def _enter(text: str, index: int, pointer: str, stack: list[_Open], found: Walk) -> int:
    """Read a scalar, or open an object or array. Return the index behind what was read."""
    found.values[pointer] = index
    match text[index : index + 1]:
        case "{":
            stack.append(_Open(pointer, "}"))
            return index + 1
        case "[":
            stack.append(_Open(pointer, "]"))
            return index + 1
        case '"':
            return _string(text, index + 1, True)[1]
    return _scalar(text, index, found)


def _scalar(text: str, index: int, found: Walk) -> int:
    literal = _literal(text, index)
    if literal is not None:
        return literal.end()
    constant = _not_json(text, index)
    if constant is not None:
        raise JSONDecodeError(f"{constant[0]} is not JSON", text, index)
    number = _number(text, index)
    if number is None:
        raise JSONDecodeError("Expecting a value", text, index)
    if len(number[0]) > MAX_NUMBER_CHARS or isinf(float(number[0])):
        _keep(found.bad_numbers, number[0], index)
    return number.end()


def _key(text: str, index: int, frame: _Open, found: Walk) -> tuple[str, int]:
    if not text.startswith('"', index):
        raise JSONDecodeError("Expecting a key in double quotes", text, index)
    key, end = _string(text, index + 1, True)
    escaped = _escape(key)
    pointer = f"{frame.pointer}/{escaped}"
    if key in frame.keys:
        _keep(found.repeated, key, index)
    frame.keys.add(key)
    found.keys[pointer] = index
    return escaped, _past_space(text, end)


def _expect(text: str, char: str, index: int) -> int:
    if not text.startswith(char, index):
        raise JSONDecodeError(f"Expecting {char!r}", text, index)
    return _past_space(text, index + 1)


def _past_space(text: str, index: int) -> int:
    match = _skip(text, index)
    return index if match is None else match.end()


def _keep(faults: list[tuple[str, int]], what: str, index: int) -> None:
    if len(faults) < MAX_FAULTS:
        faults.append((what, index))


def _escape(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
