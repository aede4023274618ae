"""Computes the geometry of the drawings: curves, histograms, intervals. Templates draw them as SVG."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

CURVE_RANGE = (0.25, 16.0)
CURVE_SIZE = (720.0, 300.0)
CURVE_MARGIN = (44.0, 12.0, 12.0, 34.0)
"""Left, top, right and bottom margin; `site/assets/curve.js` draws in the same frame."""
HISTOGRAM_SIZE = (640.0, 150.0)


@dataclass(frozen=True)
class Line:
    """One curve: its name, its page and its path."""

    name: str
    page: str
    path: str


@dataclass(frozen=True)
class Bar:
    """One bar of a histogram: place and height in the drawing's units, and what it counts."""

    x: float
    y: float
    width: float
    height: float
    label: str
    number: int


@dataclass(frozen=True)
class Tick:
    """One mark on an axis."""

    at: float
    label: str


class Frame:
    """Places values in a drawing, within its margins; `log` names the axes that are logarithmic, as `xy`."""

    def __init__(
        self,
        size: tuple[float, float],
        margin: tuple[float, float, float, float],
        x: tuple[float, float],
        y: tuple[float, float],
        *,
        log: str = "",
    ) -> None:
        """Take the margins left, top, right and bottom, and the least and the greatest of both axes."""
        self._size, self._margin, self._x, self._y, self._log = size, margin, x, y, log

    def x(self, value: float) -> float:
        """Give the place of a value from left to right, kept inside the frame."""
        left, _, right, _ = self._margin
        return left + (self._size[0] - left - right) * _share(value, self._x, is_log="x" in self._log)

    def y(self, value: float) -> float:
        """Give the place of a value from the bottom up, as drawings count from the top."""
        _, top, _, bottom = self._margin
        height = self._size[1] - top - bottom
        return self._size[1] - bottom - height * _share(value, self._y, is_log="y" in self._log)


def _share(value: float, bounds: tuple[float, float], *, is_log: bool) -> float:
    low, high = bounds
    if is_log:
        value, low, high = math.log(max(value, low) / low), 0.0, math.log(high / low)
    return min(max((value - low) / (high - low), 0.0), 1.0)


_CURVE = Frame(CURVE_SIZE, CURVE_MARGIN, CURVE_RANGE, (0.0, 1.0), log="x")


def curve_path(speedups: Iterable[float], problems: int) -> str:
    """Draw fast@p as steps: the share of all problems with speedup >= p, over a logarithmic p."""
    ordered = sorted(speedups)
    low, high = CURVE_RANGE
    share = (len(ordered) - bisect_left(ordered, low)) / problems if problems else 0.0
    parts = [f"M{_CURVE.x(low):.1f} {_CURVE.y(share):.1f}"]
    inside = [value for value in ordered if low <= value < high]
    for value in inside:
        share -= 1 / problems
        parts.append(f"H{_CURVE.x(value):.1f}V{_CURVE.y(share):.1f}")
    parts.append(f"H{_CURVE.x(high):.1f}")
    return "".join(parts)


def curve_ticks() -> tuple[list[Tick], list[Tick]]:
    """Give the marks of the curve's axes: p, then share."""
    across = [Tick(_CURVE.x(p), f"{p:g}") for p in (0.25, 0.5, 1, 2, 4, 8, 16)]
    return across, [Tick(_CURVE.y(share), f"{100 * share:.0f} %") for share in (0, 0.25, 0.5, 0.75, 1)]


def histogram(speedups: Sequence[float]) -> list[Bar]:
    """Count speedups in bins of a quarter octave between 1/8 and 16; the ends take what lies beyond."""
    bins, (width, height) = 28, HISTOGRAM_SIZE
    counts = [0] * bins
    for value in speedups:
        counts[min(max(int((math.log2(value) + 3) * 4), 0), bins - 1)] += 1
    top, step = max(counts, default=0) or 1, width / bins
    return [
        Bar(
            at * step + 1,
            height * (1 - number / top),
            step - 2,
            height * number / top,
            _bin_label(at, bins),
            number,
        )
        for at, number in enumerate(counts)
    ]


def histogram_ticks() -> list[Tick]:
    """Give the marks under the histogram, one an octave."""
    return [Tick((power + 3) * HISTOGRAM_SIZE[0] / 7, f"{2.0**power:g}×") for power in range(-3, 5)]


def round_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Give round values from `low` to `high`: steps of 1, 2 or 5 times a power of ten."""
    least = (high - low) / most
    power = 10.0 ** math.floor(math.log10(least))
    step = next(power * size for size in (1, 2, 5, 10) if power * size >= least)
    first = math.ceil(low / step - 1e-9)
    return [round(at * step, 10) for at in range(first, math.floor(high / step + 1e-9) + 1)]


def decades(low: float, high: float) -> list[float]:
    """Give 1, 2 and 5 times the powers of ten between two positive values; of many, the powers alone."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found = [
        size * 10.0**power for power in powers for size in (1, 2, 5) if low <= size * 10.0**power <= high
    ]
    return found if len(found) <= 10 else [value for value in found if math.log10(value).is_integer()]


class Scale:
    """Places values on a logarithmic axis between the least and the greatest of them."""

    def __init__(self, values: Iterable[float], width: float) -> None:
        known = [value for value in values if value > 0] or [1.0]
        self.low, self.high = min(known) * 0.98, max(known) * 1.02
        self.width = width

    def x(self, value: float) -> float:
        """Give the place of a value, kept inside the axis."""
        share = math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        return round(min(share, 1.0) * self.width, 1)


def steps_path(points: Sequence[tuple[float, float]], right: float) -> str:
    """Draw values that hold until the next one: (x, y) in the drawing's units, then on to `right`."""
    if not points:
        return ""
    start = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    return start + "".join(f"H{x:.1f}V{y:.1f}" for x, y in points[1:]) + f"H{right:.1f}"


def _bin_label(at: int, bins: int) -> str:
    low, high = f"{2 ** (at / 4 - 3):.2f}×", f"{2 ** ((at + 1) / 4 - 3):.2f}×"
    return f"below {high}" if at == 0 else f"{low} and more" if at == bins - 1 else f"{low} to {high}"
