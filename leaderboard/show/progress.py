"""What people see while kernels are judged: a line a verdict, on a terminal a bar below, in CI only costs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kernel_evaluator.records.rows import Failure, Row, Status

from leaderboard.texts.inert import one_line

_LINE = 400
"""Characters of a line at most."""


class Reporter:
    """Shows rows as they come, and what the engine says between them. Writes to standard error."""

    def __init__(self) -> None:
        self._total = 0
        self._done = 0
        self._bar: Any = None
        self._quiet = os.environ.get("CI", "").lower() in ("1", "true")

    @contextmanager
    def over(self, total: int) -> Iterator[None]:
        """Count the kernels of one submission."""
        self._total, self._done = total, 0
        if not self._quiet and sys.stderr.isatty():
            from tqdm import tqdm

            self._bar = tqdm(total=total, unit="kernel", dynamic_ncols=True)
        try:
            yield
        finally:
            if self._bar is not None:
                self._bar.close()
                self._bar = None

    def show(self, row: Row) -> None:
        """Show one finished kernel."""
        self._done += 1
        is_first = self._done <= self._total  # what counts comes a second time
        place = f"{self._done}/{self._total}" if is_first else "again"
        line = f"[{place}] {one_line(describe(row), _LINE)}\n"
        if self._bar is not None:
            self._bar.write(line, file=sys.stderr, end="")
            self._bar.update(is_first)
        elif not self._quiet:
            sys.stderr.write(line)
            sys.stderr.flush()

    def event(self, name: str, facts: dict[str, Any]) -> None:
        """Show what the engine does: a kernel's step on the bar, anything else (costs) as a line."""
        if "key" not in facts:
            words = ", ".join(f"{fact} {value}" for fact, value in facts.items() if value is not None)
            sys.stderr.write(one_line(f"{name}: {words}", _LINE) + "\n")
        elif self._bar is not None:
            self._bar.set_postfix_str(f"{name} {facts['key']}")


def describe(row: Row) -> str:
    """Say a row in one line: `1/19 correct 1.53x (1.50-1.56)`, or what failed."""
    place = f"{row.key.level}/{row.key.problem_id}" + (f" sample {row.key.sample}" if row.key.sample else "")
    if row.speedup is not None and row.speedup_ci95 is not None:
        low, high = row.speedup_ci95
        figures = f"{place} {row.status} {row.speedup:.3g}x ({low:.3g}-{high:.3g})"
        figures += ", confirmed" if row.second else ""
        return f"{figures}: {_why(row.failure)}" if row.failure else figures
    if row.status is Status.CORRECT or row.failure is None:
        return f"{place} {row.status}"
    return f"{place} {row.status}: {_why(row.failure)}"


def _why(failure: Failure) -> str:
    return f"{failure.name}: {_first_line(failure.message)}"


def _first_line(text: str) -> str:
    return one_line(text.strip().partition("\n")[0], 220)
