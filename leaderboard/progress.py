"""What a person sees while kernels are judged: a bar on a terminal, lines elsewhere, nothing in CI."""

from __future__ import annotations

import os
import sys
from types import TracebackType
from typing import Any

from kernelbench.rows import Row, Status


class Reporter:
    """Shows rows as they come. A context manager around one evaluation; writes to standard error."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._bar: Any = None
        self._quiet = os.environ.get("CI", "").lower() in ("1", "true")

    def __enter__(self) -> Reporter:
        if not self._quiet and sys.stderr.isatty():
            from tqdm import tqdm  # `kbl --help` must stay fast

            self._bar = tqdm(total=self._total, unit="kernel", dynamic_ncols=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()

    def show(self, row: Row) -> None:
        """Show one finished kernel."""
        self._done += 1
        line = describe(row)
        if self._bar is not None:
            self._bar.update()
            self._bar.set_postfix_str(line)
        elif not self._quiet:
            sys.stderr.write(f"[{self._done}/{self._total}] {line}\n")
            sys.stderr.flush()

    def event(self, name: str, facts: dict[str, Any]) -> None:
        """Show what the engine is doing; only a bar has room for it."""
        if self._bar is not None and "key" in facts:
            self._bar.set_postfix_str(f"{name} {facts['key']}")


def describe(row: Row) -> str:
    """Say a row in one line: `1/19 correct 1.53x (1.50-1.56)`, or what failed."""
    place = f"{row.key.level}/{row.key.problem_id}" + (f" sample {row.key.sample}" if row.key.sample else "")
    if row.speedup is not None and row.speedup_ci95 is not None:
        low, high = row.speedup_ci95
        return f"{place} {row.status} {row.speedup:.3g}x ({low:.3g}-{high:.3g})"
    if row.status is Status.CORRECT or row.failure is None:
        return f"{place} {row.status}"
    return f"{place} {row.status}: {row.failure.name}: {_first_line(row.failure.message)}"


def _first_line(text: str) -> str:
    line = text.strip().partition("\n")[0]
    return line if len(line) <= 120 else line[:119] + "…"
