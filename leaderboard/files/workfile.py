"""The file an evaluation grows in: a complete result file after every write, whatever happens in between."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

from kernel_evaluator.problems.jobs import Verdict
from kernel_evaluator.records.keys import KernelKey
from kernel_evaluator.records.rows import Environment, Failure, ResultFile, Row

from leaderboard.files import store
from leaderboard.texts.inert import shorten

MIN_SECONDS_BETWEEN_WRITES = 0.2
NAME, MESSAGE, LOG, OUTCOME = 500, 20_000, 100_000, 400
"""Characters of a row's texts at most, as `result.schema.json` has it. A kernel's own words may be longer."""


def utc_now() -> str:
    """Give the time as UTC ISO 8601, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class WorkFile:
    """Collects rows and keeps the file on disk complete. A context manager: leaving it writes what is left.

    A row is on disk at the latest 0.2 s after it came: rows that come faster share a write.
    """

    def __init__(self, path: Path, blank: ResultFile) -> None:
        self.path = path
        self._blank = blank
        self._rows: dict[KernelKey, Row] = {}
        self._kept: dict[KernelKey, str] = {}
        self._kept_since = blank.started_at
        self._environments: dict[str, Environment] = {}
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._written_at = 0.0

    def keep(self, rows: Sequence[Row], previous: Sequence[ResultFile]) -> None:
        """Start from earlier rows, with the environments that measured them."""
        known = {name: env for file in reversed(previous) for name, env in file.environments.items()}
        self._rows.update({row.key: row for row in rows})
        self._environments.update({row.environment: known[row.environment] for row in rows})
        if rows:
            self._kept = {row.key: row.finished_at for row in rows}
            self._kept_since = min(file.started_at for file in previous)

    def add(self, verdict: Verdict) -> Row:
        """Take a verdict in, replacing the kernel's earlier row; give the row as it is written."""
        name = store.environment_name(verdict.environment)
        row = replace(bounded(verdict.row), environment=name)
        with self._lock:
            self._environments[name] = verdict.environment
            self._rows[row.key] = row
            wait_s = self._written_at + MIN_SECONDS_BETWEEN_WRITES - time.monotonic()
            if wait_s <= 0:
                self._write()
            elif self._timer is None:
                self._timer = threading.Timer(wait_s, self._write_later)
                self._timer.daemon = True
                self._timer.start()
        return row

    def verdict(self, key: KernelKey) -> Verdict:
        """Give a kernel's verdict as it stands now."""
        with self._lock:
            row = self._rows[key]
            return Verdict(row=row, environment=self._environments[row.environment])

    def result(self) -> ResultFile:
        """Give the record as it stands now."""
        now = utc_now()
        continues = any(self._rows[key].finished_at == at for key, at in self._kept.items())
        since = self._kept_since if continues else self._blank.started_at
        started_at = min(since, now)  # the clock may have been set back since
        return with_rows(
            replace(self._blank, started_at=started_at, finished_at=now), self._rows, self._environments
        )

    def __enter__(self) -> WorkFile:
        with self._lock:
            self._write()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            self._write()

    def _write_later(self) -> None:
        """Write what waited. Where that fails the next write says so: nobody listens to this thread."""
        with self._lock:
            if self._timer is None:
                return
            self._timer = None
            with suppress(OSError):
                self._write()

    def _write(self) -> None:
        store.write_atomically(self.path, store.dump_result(self.result()))
        self._written_at = time.monotonic()


def with_rows(
    result: ResultFile, rows: Mapping[KernelKey, Row], environments: Mapping[str, Environment]
) -> ResultFile:
    """Give a result other rows: in order, with their environments and the seconds that they took."""
    ordered = tuple(rows[key] for key in sorted(rows))
    return replace(
        result,
        rows=ordered,
        environments={row.environment: environments[row.environment] for row in ordered},
        gpu_seconds=sum(row.gpu_seconds for row in ordered),
        cpu_seconds=sum(row.cpu_seconds for row in ordered),
    )


def bounded(row: Row) -> Row:
    """Cut what a kernel said, so that the row can be recorded, or kept, with all others."""
    failure, elsewhere = row.failure, row.elsewhere
    if failure is not None:
        failure = Failure(
            name=shorten(failure.name, NAME),
            message=shorten(failure.message, MESSAGE),
            log=failure.log[-LOG:],
        )
    if elsewhere is not None:
        elsewhere = {name: shorten(said, OUTCOME) for name, said in elsewhere.items()}
    return replace(row, failure=failure, elsewhere=elsewhere)
