"""What people write by hand, read by one set of rules: dataclasses of a table's values, and strict TOML.

What it raises names the place, the field, the rule and the value; who calls names the file.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, fields
from datetime import date
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Any, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")

_WORDS = {
    int: "a whole number",
    float: "a finite number",
    str: "text in quotes",
    bool: "true or false",
    NoneType: "null",
}


def typed(kind: type[T], values: object, where: str = "") -> T:
    """Make a dataclass of a table's values, each of which is what its field says; raise ValueError."""
    at = f"{where}: " if where else ""
    if not isinstance(values, Mapping):
        raise ValueError(f"{at}must be a table with names and values, got {values!r:.80}")
    known, needed = _fields(cast(Any, kind))
    missing, unknown = sorted(needed - values.keys()), sorted(values.keys() - known)
    if wrong := [f"{what} {names}" for what, names in (("missing", missing), ("unknown", unknown)) if names]:
        raise ValueError(f"{at}{', '.join(wrong)}; there are {', '.join(known)}")
    for name, value in values.items():
        if not any(_fits(value, wanted) for wanted in known[name]):
            words = " or ".join(map(_named, known[name]))
            raise ValueError(f"{at}{name} must be {words}, got {value!r:.80}")
    try:
        return kind(**values)
    except ValueError as error:
        raise ValueError(f"{at}{error}") from error


def require_day(name: str, text: str) -> None:
    """Raise ValueError where a field is no day of the calendar as 2026-11-24."""
    try:
        date.fromisoformat(text)
        is_day = re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text) is not None
    except ValueError:
        is_day = False
    if not is_day:
        raise ValueError(f"{name} must be YYYY-MM-DD, got {text!r:.80}")


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file; raise ValueError where it is none, and OSError."""
    return tomllib.loads(without_mark(path.read_bytes().decode("utf-8")))


def without_mark(text: str) -> str:
    """Give the text of a file; raise ValueError where it begins with a byte-order mark."""
    if text.startswith("\ufeff"):
        raise ValueError("it begins with a byte-order mark: save it as UTF-8 without one")
    return text


@cache
def _fields(kind: Any) -> tuple[dict[str, tuple[Any, ...]], frozenset[str]]:
    """What the values of each field may be, and which fields must be there."""
    hints = get_type_hints(kind)
    needed = {f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING}
    return {f.name: _choices(hints[f.name]) for f in fields(kind)}, frozenset(needed)


def _choices(hint: Any) -> tuple[Any, ...]:
    """The parts of a union or of a list of words; else what is left of it when asked about at run time."""
    origin = get_origin(hint)
    if origin is Literal or NoneType in get_args(hint):
        return get_args(hint)
    return (origin or hint,)


def _fits(value: object, wanted: Any) -> bool:
    if isinstance(wanted, str):
        return value == wanted
    if isinstance(value, bool) or wanted is bool:
        return isinstance(value, bool) and wanted is bool
    if wanted is float:
        return isinstance(value, int | float) and math.isfinite(value)
    return isinstance(value, wanted)


def _named(wanted: Any) -> str:
    return wanted if isinstance(wanted, str) else _WORDS.get(wanted, wanted.__name__)
