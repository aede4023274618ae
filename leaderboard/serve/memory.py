"""Verdicts that were reached before, on disk: the same kernel, problem, settings, evaluator and place.

One SQLite file of bounded size; what was not used for longest goes first. A verdict that another time may be
another is not kept: our own faults, and what waits for a person.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
import time
import zlib
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kernel_evaluator.problems.jobs import Settings
from kernel_evaluator.records.rows import Status
from kernel_evaluator.records.version import evaluator_sha256

NOT_KEPT = frozenset({Status.INFRA_ERROR, Status.QUARANTINED})
MAX_BYTES = 2 * 2**30
_GO_TOGETHER = 16
"""So many go for one that comes, where room is short: a file far above its bound holds nobody up."""
# Nothing reads `size`: files that were kept before have it, and no row without.
_TABLE = """
CREATE TABLE IF NOT EXISTS verdicts (
    key TEXT PRIMARY KEY, verdict BLOB NOT NULL, size INTEGER NOT NULL, used REAL NOT NULL
) WITHOUT ROWID
"""
_FORGET = "DELETE FROM verdicts WHERE key IN (SELECT key FROM verdicts ORDER BY used LIMIT ?)"
_BY_USE = "CREATE INDEX IF NOT EXISTS verdicts_by_use ON verdicts (used)"

Verdict = Mapping[str, Any]
"""The row and the environment, as JSON values."""


class MemoryFileError(Exception):
    """The file holds no verdicts, or cannot be opened. The message says what to do."""


def fingerprint(source_sha256: str, problem_sha256: str, settings: Settings, place: str) -> str:
    """Name what a verdict hangs on; `place` is the device and what runs on it."""
    said = [source_sha256, problem_sha256, asdict(settings), evaluator_sha256(), place]
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def may_be_kept(verdict: Verdict) -> bool:
    """Whether the same request may be answered by this verdict."""
    return Status(verdict["row"]["status"]) not in NOT_KEPT


class VerdictMemory:
    """Finds verdicts by fingerprint and keeps new ones. Threads and processes may share the file."""

    def __init__(self, path: Path, max_bytes: int = MAX_BYTES) -> None:
        """Open the file, or make it; raise MemoryFileError where that cannot be done."""
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self.failures = 0
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = sqlite3.connect(path, timeout=10.0, isolation_level=None, check_same_thread=False)
            self._file.execute("PRAGMA journal_mode=WAL")
            self._file.execute("PRAGMA synchronous=NORMAL")
            self._file.execute(_TABLE)
            self._file.execute(_BY_USE)
        except (OSError, sqlite3.Error) as error:
            raise MemoryFileError(
                f"{path}: no verdicts can be kept there ({error}); remove it, or name another with --memory"
            ) from error

    def find(self, key: str) -> dict[str, Any] | None:
        """Give the verdict; None where there is none, or the file cannot be read now."""
        with self._lock:
            verdict: dict[str, Any] | None = None
            try:
                found = self._file.execute("SELECT verdict FROM verdicts WHERE key = ?", (key,)).fetchone()
                if found is not None:
                    verdict = json.loads(zlib.decompress(found[0]))
                    self._file.execute("UPDATE verdicts SET used = ? WHERE key = ?", (time.time(), key))
            except (sqlite3.Error, zlib.error, ValueError):
                self.failures += 1
            return verdict  # also where the disk is full, so that its use cannot be noted

    def keep(self, key: str, verdict: Verdict) -> None:
        """Keep a verdict. A failure, as on a full disk, is counted, and the verdict stands all the same."""
        packed = zlib.compress(json.dumps(verdict).encode())
        with self._lock:
            try:
                self._file.execute(
                    "INSERT OR REPLACE INTO verdicts VALUES (?, ?, ?, ?)",
                    (key, packed, len(packed), time.time()),
                )
                self._make_room()
            except sqlite3.Error:
                self.failures += 1

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._file.close()

    def _size(self) -> int:
        """Give the bytes of the file that hold something. Read off its head: a sum would read all of it."""
        pages, free, bytes_each = (
            int(self._file.execute(f"PRAGMA {name}").fetchone()[0])
            for name in ("page_count", "freelist_count", "page_size")
        )
        return (pages - free) * bytes_each

    def _make_room(self) -> None:
        if self._size() > self._max_bytes:
            self._file.execute(_FORGET, (_GO_TOGETHER,))
