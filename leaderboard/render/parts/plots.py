"""Computes the geometry of rooflines and of what changed over time. Templates draw them as SVG."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from leaderboard.light.roofline import CEILINGS, Roof
from leaderboard.render.parts import numbers
from leaderboard.render.parts.charts import Frame, Tick, decades, round_ticks, steps_path
from leaderboard.render.parts.lines import KernelLine

SIZE = (720.0, 320.0)
MARGIN = (64.0, 14.0, 110.0, 40.0)
"""Left, top, right and bottom margin of both drawings; names of lines stand to the right."""


@dataclass(frozen=True, kw_only=True)
class Dot:
    """One kernel, or one moment, in a drawing. `is_beyond` marks less than the nominal arithmetic."""

    x: float
    y: float
    label: str
    problem: str = ""
    entry: str = ""
    is_beyond: bool = False


@dataclass(frozen=True, kw_only=True)
class Series:
    """One line of a drawing: its name where it ends, its page, its path."""

    name: str
    path: str
    end_y: float
    page: str = ""
    dots: tuple[Dot, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RooflinePlot:
    """Achieved TFLOP/s over intensity, under a device's roofs; `bounds` are least and most of both axes."""

    dots: tuple[Dot, ...]
    roofs: tuple[Series, ...]
    across: tuple[Tick, ...]
    upward: tuple[Tick, ...]
    left_out: int
    bounds: tuple[float, float, float, float]

    @property
    def spots(self) -> str:
        """All dots as one path of points, where links to each would take too much room."""
        return "".join(f"M{dot.x:.0f} {dot.y:.0f}h0" for dot in self.dots)


@dataclass(frozen=True, kw_only=True)
class TimePlot:
    """Values that hold until the next one, on a true axis of time."""

    series: tuple[Series, ...]
    across: tuple[Tick, ...]
    upward: tuple[Tick, ...]
    marks: tuple[Tick, ...]


def roofline_plot(
    lines: Iterable[KernelLine],
    roofs: Mapping[str, Roof],
    peaks: Mapping[str, float],
    memory_tb_s: float,
    *,
    names: Mapping[str, str] | None = None,
) -> RooflinePlot | None:
    """Draw correct kernels under the roofs of a device; None where no kernel has counted arithmetic.

    `peaks` are TFLOP/s. Problems without counted arithmetic have no intensity and are left out. Dots are
    named by their problem, or by their entry where `names` has names for entries.
    """
    timed = [line for line in lines if line.is_correct and line.runtime_ms and line.problem in roofs]
    found = [(line, roofs[line.problem]) for line in timed if roofs[line.problem].flops]
    if not found:
        return None
    rates = [roof.tflop_s(line.runtime_ms or 1) for line, roof in found]
    intensities = [roof.intensity for _, roof in found]
    low_x, high_x = min(1.0, *intensities) / 1.3, max(1000.0, *intensities) * 1.3
    low_y, high_y = min(1.0, *rates) / 1.3, max(*(peaks[name] for name in CEILINGS), *rates) * 1.5
    frame = Frame(SIZE, MARGIN, (low_x, high_x), (low_y, high_y), log="xy")
    dots = tuple(
        Dot(
            x=frame.x(roof.intensity),
            y=frame.y(rate),
            label=f"{_named(line, names)}: {numbers.significant(rate, 3)} TFLOP/s, "
            f"{numbers.significant(roof.gb_s(line.runtime_ms or 1), 4)} GB/s, "
            f"{numbers.percent(line.light_share)} of light speed",
            problem=line.problem,
            entry=line.entry,
            is_beyond=roof.skips_arithmetic(line.runtime_ms or 1),
        )
        for (line, roof), rate in zip(found, rates, strict=True)
    )
    return RooflinePlot(
        dots=dots,
        roofs=tuple(
            _roof(frame, words, peaks[name], memory_tb_s, low_x, high_x) for name, words in CEILINGS.items()
        ),
        across=tuple(Tick(frame.x(value), f"{value:g}") for value in decades(low_x, high_x)),
        upward=tuple(Tick(frame.y(value), f"{value:g}") for value in decades(low_y, high_y)),
        left_out=len(timed) - len(found),
        bounds=(low_x, high_x, low_y, high_y),
    )


def _named(line: KernelLine, names: Mapping[str, str] | None) -> str:
    return names[line.entry] if names else f"{line.key.level}/{line.key.problem_id}"


def _roof(frame: Frame, words: str, peak: float, memory: float, low: float, high: float) -> Series:
    ridge = peak / memory
    start, turn, end = low, min(max(ridge, low), high), high
    points = [(value, min(peak, memory * value)) for value in (start, turn, end)]
    path = "L".join(f"{frame.x(x):.1f} {frame.y(y):.1f}" for x, y in points)
    return Series(name=f"{words} {peak:g}", path=f"M{path}", end_y=frame.y(min(peak, memory * high)))


def time_plot(
    series: Mapping[str, Sequence[tuple[str, float, str]]],
    *,
    pages: Mapping[str, str] | None = None,
    marks: Iterable[tuple[str, str]] = (),
) -> TimePlot | None:
    """Draw speedups over time: name to (ISO 8601 time, value, label), oldest first; None where none is.

    `marks` are moments to point out, each with its words.
    """
    moments = [_seconds(at) for points in series.values() for at, _, _ in points]
    if not moments:
        return None
    first, last = min(moments), max(moments)
    span = max(last - first, 3600.0)
    top = max(value for points in series.values() for _, value, _ in points)
    ticks = round_ticks(1.0, 1.0 + max(1.1 * (top - 1.0), 0.1), 5)
    frame = Frame(SIZE, MARGIN, (first - 0.02 * span, last + 0.03 * span), (1.0, max(ticks[-1], top)))
    return TimePlot(
        series=tuple(
            _steps(frame, name, points, (pages or {}).get(name, ""))
            for name, points in series.items()
            if points
        ),
        across=tuple(Tick(frame.x(at), words) for at, words in _days(first, last, span)),
        upward=tuple(Tick(frame.y(value), f"{value:g}") for value in ticks),
        marks=tuple(
            Tick(frame.x(_seconds(at)), words) for at, words in marks if first <= _seconds(at) <= last
        ),
    )


def _steps(frame: Frame, name: str, points: Sequence[tuple[str, float, str]], page: str) -> Series:
    placed = [(frame.x(_seconds(at)), frame.y(value)) for at, value, _ in points]
    dots = tuple(Dot(x=x, y=y, label=label) for (x, y), (_, _, label) in zip(placed, points, strict=True))
    return Series(
        name=name,
        path=steps_path(placed, SIZE[0] - MARGIN[2]),
        end_y=placed[-1][1],
        page=page,
        dots=dots[-60:],
    )


def _days(first: float, last: float, span: float) -> list[tuple[float, str]]:
    """Give round moments: hours within two days, else days, months or years; as many as have room."""
    hours, day, date = "%m-%d %H:%M", "%m-%d", "%Y-%m-%d"
    room = {hours: 5, day: 8, date: 5}
    steps = ((21600, hours), (43200, hours), (86400, day), (7 * 86400, day), (30 * 86400, date))
    fits = (pair for pair in steps if span / pair[0] <= room[pair[1]])
    step, form = next(fits, (math.ceil(span / room[date] / 86400) * 86400, date))
    at = math.ceil(first / step) * step
    found = []
    while at <= last:
        found.append((float(at), datetime.fromtimestamp(at, UTC).strftime(form)))
        at += step
    return found or [(first, datetime.fromtimestamp(first, UTC).strftime("%Y-%m-%d"))]


def _seconds(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()
