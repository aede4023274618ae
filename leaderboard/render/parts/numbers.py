"""How figures are written for people: units, intervals, digits; the same on every page."""

from __future__ import annotations

import math
from bisect import bisect
from decimal import ROUND_HALF_UP, Context, Decimal
from urllib.parse import urlsplit

from leaderboard.texts.inert import one_line

NONE = "–"
NARROW = "\u202f"

_LIMITS = (0.001, 0.01, 0.1, 10.0, 100.0)
_PLACES = (6, 5, 3, 2, 1, 0)
"""Digits after the point below each limit, and above the last."""
_WHOLE = Context(prec=400, rounding=ROUND_HALF_UP)
"""Digits for any float, so that rounding sees its exact value."""
_ROUND = len("15.75")
"""A figure that six digits make no longer than this is round, as every threshold is that people choose."""


def speedup(value: float | None) -> str:
    """Write a speedup with as many digits as its size asks for: `0.95×`, `1.83×`, `12.4×`."""
    return NONE if value is None else f"{_digits(value)}×"


def interval(bounds: tuple[float, float] | None) -> str:
    """Write a 95 % interval: `1.79–1.87`."""
    return "" if bounds is None else f"{_digits(bounds[0])}–{_digits(bounds[1])}"


def percent(share: float | None) -> str:
    """Write a share as a percentage with one decimal: `41.2 %`."""
    if share is None or not math.isfinite(share):
        return NONE
    return f"{_fixed(100 * share, 1)}{NARROW}%"


def milliseconds(value: float | None) -> str:
    """Write a time in ms, or in µs below a tenth of a millisecond."""
    if value is None:
        return NONE
    if value < 0.1:
        return f"{_digits(1000 * value)}{NARROW}µs"
    return f"{_digits(value)}{NARROW}ms"


def seconds(value: float) -> str:
    """Write a span of time in the unit that fits: seconds, minutes or hours."""
    for limit, unit, size in ((120, "s", 1), (7200, "min", 60)):
        if value < limit:
            return f"{_digits(value / size)}{NARROW}{unit}"
    return f"{_digits(value / 3600)}{NARROW}h"


def count(value: int) -> str:
    """Write a whole number with narrow gaps between thousands."""
    return f"{value:,}".replace(",", NARROW)


def counted(value: int, one: str, many: str = "") -> str:
    """Write how many of something there are: `1 entry`, `2 entries`."""
    return f"{count(value)} {one if value == 1 else many or one + 's'}"


def amount(value: float, unit: str) -> str:
    """Write a large figure with three digits and a decimal prefix: `137 GFLOP`, `4.29 TB/s`."""
    for size, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{_digits(value / size)}{NARROW}{prefix}{unit}"
    return f"{_digits(value)}{NARROW}{unit}"


def significant(value: float, digits: int) -> str:
    """Write a figure with so many significant digits and no exponent, as scripts do: `0.5`, `2160`."""
    return f"{Decimal(f'{value:.{digits}g}'):f}"


def dollars(value: float) -> str:
    """Write an amount of money: `$0.5`, `$12350`."""
    return f"${significant(value, 4)}"


def date(stamp: str) -> str:
    """Cut an ISO 8601 time to its day."""
    return stamp[:10] or NONE


def rank(value: int | None, sharing: int = 1) -> str:
    """Write a rank, with `=` where several entries share it."""
    if value is None:
        return NONE
    return f"{value}=" if sharing > 1 else str(value)


def safe_url(text: object) -> str:
    """Pass http and https addresses through; anything else is empty, so that no link is made of it."""
    if not isinstance(text, str) or len(text) > 2000:
        return ""
    try:
        parts = urlsplit(text)
    except ValueError:
        return ""
    return text if parts.scheme in ("http", "https") and parts.netloc else ""


def plain(text: object, limit: int = 200) -> str:
    """Make one line of untrusted text, without control or direction characters, of `limit` characters."""
    return one_line(str(text), limit)


def rounded(value: float | None) -> float | None:
    """Round to six significant digits, for compact JSON; None for what JSON cannot hold.

    What would become a round number keeps all its digits: 0.99999992 is below a threshold of 1, and whoever
    counts from the data has to count what the tables do.
    """
    if value is None or not math.isfinite(value):
        return None
    text = "%.6g" % value  # noqa: UP031 -- millions of calls, and half as fast otherwise
    return float(value if len(text) <= _ROUND else text)


def _digits(value: float) -> str:
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else NONE
    return _fixed(value, _PLACES[bisect(_LIMITS, abs(value))])


def _fixed(value: float, places: int) -> str:
    """Round as scripts do: `toFixed` rounds an exact tie up, Python's formats to the even digit."""
    return str(Decimal(value).quantize(Decimal((0, (1,), -places)), context=_WHOLE))
