"""Tables as CSV. A board's kernels are packed entry by entry: `gzip` reads many such parts as one file."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator

from leaderboard.render.output import compressed
from leaderboard.render.parts import numbers
from leaderboard.render.parts.lines import KernelLine
from leaderboard.texts.inert import cell

KERNEL_HEADER = (
    "entry",
    "key",
    "status",
    "speedup",
    "low",
    "high",
    "runtime_ms",
    "reference_ms",
    "light_share",
    "language",
    "labels",
)


def packed_kernels(lines: Iterable[KernelLine]) -> bytes:
    """Give an entry's kernels, one line each without a header, packed."""
    return compressed(as_csv(_kernel(line) for line in lines))


def packed_header() -> bytes:
    """Give the line that comes first, packed."""
    return compressed(as_csv([KERNEL_HEADER]))


def as_csv(rows: Iterable[Iterable[object]]) -> str:
    """Give rows as CSV."""
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows(rows)
    return stream.getvalue()


def _kernel(line: KernelLine) -> Iterator[object]:
    yield from (line.entry, line.key, line.status.value)
    figures = (line.speedup, *(line.interval or (None, None)), line.runtime_ms, line.reference_ms)
    yield from (numbers.rounded(value) for value in (*figures, line.light_share))
    yield from (line.language, cell(" ".join(line.labels)))
