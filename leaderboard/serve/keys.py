"""Who may ask, and for how much: one key from the environment, or many from a file, each with its limits.

A keys file is TOML. It holds the SHA-256 of each key, never the key itself:

    [trainer]
    sha256 = "9f86d081…"      # printf %s "$KEY" | sha256sum
    max_queued = 500          # judgements of this key that may wait; the server's own bound where left out
    per_minute = 6000         # judgements taken in a minute; no bound where left out
    own_problems = true       # may send the source of a problem, which runs unconfined
"""

from __future__ import annotations

import hashlib
import hmac
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from leaderboard.files.typed import read_toml
from leaderboard.texts.faults import words_for

DEFAULT = "default"
"""The name of the key from the environment, and of everybody where no key is needed."""


class KeysFileError(ValueError):
    """The keys file cannot be used. The message names the field and the mend."""


@dataclass(frozen=True, kw_only=True)
class Key:
    """One key: who it is for, and what it may."""

    name: str
    sha256: str = ""
    max_queued: int | None = None
    per_minute: int | None = None
    own_problems: bool = False


class Keyring:
    """The keys of a server. Without any, everybody has the key `default`."""

    def __init__(self, keys: Mapping[str, Key], clock: Callable[[], float] = time.monotonic) -> None:
        self._keys = dict(keys)
        self._clock = clock
        self._lock = threading.Lock()
        self._left: dict[str, tuple[float, float]] = {}

    @property
    def is_open(self) -> bool:
        """Whether no key is needed."""
        return not any(key.sha256 for key in self._keys.values())

    def find(self, given: str) -> Key | None:
        """Give the key that this is; None for a stranger."""
        if self.is_open:
            return self._keys[DEFAULT]
        digest = hashlib.sha256(given.encode("utf-8", "replace")).hexdigest()
        found = [key for key in self._keys.values() if hmac.compare_digest(key.sha256, digest)]
        return found[0] if found else None

    def wait_s(self, key: Key, count: int) -> float:
        """Take so many judgements from what the key may send a minute; else say how long to wait for them.

        What was saved up is at most a minute's worth; a batch of more is let through once that is there.
        """
        if key.per_minute is None or not count:
            return 0.0
        now, rate = self._clock(), key.per_minute / 60
        with self._lock:
            left, then = self._left.get(key.name, (float(key.per_minute), now))
            left = min(float(key.per_minute), left + (now - then) * rate)
            needed = min(float(count), float(key.per_minute))
            if left < needed:
                self._left[key.name] = (left, now)
                return (needed - left) / rate
            self._left[key.name] = (left - count, now)
            return 0.0

    def give_back(self, key: Key, count: int) -> None:
        """Give back what was taken for judgements that were then refused."""
        if key.per_minute is not None and count:
            with self._lock:
                left, then = self._left[key.name]
                self._left[key.name] = (min(float(key.per_minute), left + count), then)


def keyring_of(api_key: str, path: Path | None, *, own_problems: bool) -> Keyring:
    """Make the keyring: the key of the environment, where there is one, and those of the file.

    `own_problems` says whether the former, or everybody where there is no key at all, may send problems.
    Raises KeysFileError for a file that cannot be used, or where two names have one key.
    """
    keys = read_keys(path) if path else {}
    if api_key or not keys:
        digest = hashlib.sha256(api_key.encode()).hexdigest() if api_key else ""
        keys = {DEFAULT: Key(name=DEFAULT, sha256=digest, own_problems=own_problems), **keys}
    names: dict[str, str] = {}
    for key in keys.values():
        if (other := names.setdefault(key.sha256, key.name)) != key.name:
            raise KeysFileError(
                f"{path}: [{key.name}] has the sha256 of [{other}]; give each a key of its own"
            )
    return Keyring(keys)


def read_keys(path: Path) -> dict[str, Key]:
    """Read a keys file; raise KeysFileError for one that cannot be used."""
    try:
        tables = read_toml(path)
    except (OSError, ValueError) as error:
        raise KeysFileError(words_for(error, path)) from error
    if not tables:
        raise KeysFileError(f"{path}: names no key; give each a table such as [trainer]")
    return {name: _key(path, name, table) for name, table in tables.items()}


def _key(path: Path, name: str, table: Any) -> Key:
    known = {field.name for field in fields(Key)} - {"name"}
    if name == DEFAULT:
        raise KeysFileError(f"{path}: [{name}] is the name of the environment's key; choose another")
    if not isinstance(table, dict):
        raise KeysFileError(f"{path}: {name} must be a table, [{name}], got {table!r}")
    if unknown := set(table) - known:
        raise KeysFileError(
            f"{path}: [{name}] has an unknown field {min(unknown)}; known are {', '.join(sorted(known))}"
        )
    if not re.fullmatch(r"[0-9a-f]{64}", str(table.get("sha256", ""))):
        raise KeysFileError(
            f'{path}: [{name}] sha256 must be 64 of 0-9a-f; run: printf %s "$KEY" | sha256sum'
        )
    for field in ("max_queued", "per_minute"):
        value = table.get(field, 1)
        if type(value) is not int or value < 1:
            raise KeysFileError(f"{path}: [{name}] {field} must be a whole number from 1 on, got {value!r}")
    if type(table.get("own_problems", False)) is not bool:
        raise KeysFileError(f"{path}: [{name}] own_problems must be true or false")
    return Key(name=name, **table)
