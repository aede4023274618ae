"""The build cache on disk: one folder a kernel source and toolchain, written by the trusted side alone.

A folder holds `<key>/<name>.so` for every extension that the kernel builds, `<key>/error.txt` for one that
the compiler refused, and `build.json` with how the build ended. It appears whole, by one rename, read-only.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelbench.extensions import ERROR_FILE, MAX_ERROR_BYTES

MAX_LIBRARY_BYTES = 256 << 20
MAX_EXTENSIONS = 32

_KEY = re.compile(r"[0-9a-f]{64}")
_LIBRARY = re.compile(r"[A-Za-z0-9_.\-]{1,200}\.so")
_SUMMARY = "build.json"
_STALE_S = 86_400.0
_CHUNK_BYTES = 1 << 20


class ForeignFile(Exception):
    """A build left something other than a plain file of its own, of a size that is allowed."""


@dataclass(frozen=True)
class Store:
    """The cache under `root`; `root` itself need not exist yet."""

    root: Path

    def open(self) -> None:
        """Create the folders, which nobody but their owner may list, and clear what killed builders left."""
        for folder in (self.root, self.root / "work"):
            folder.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(PermissionError):
                folder.chmod(0o711)
        for left in (self.root / "work").iterdir():  # by builds whose builder was killed
            with contextlib.suppress(FileNotFoundError):  # builds beside this one come and go
                if time.time() - left.stat().st_mtime > _STALE_S:
                    if left.is_dir():
                        shutil.rmtree(left, ignore_errors=True)
                    else:
                        left.unlink()

    def folder(self, name: str) -> Path:
        """Where the finished build of that name lies, or will lie."""
        return self.root / name

    def read(self, name: str) -> dict[str, Any] | None:
        """Give how a finished build ended; None where there is none."""
        try:
            summary: dict[str, Any] = json.loads((self.folder(name) / _SUMMARY).read_text("utf-8"))
        except (OSError, ValueError):
            return None
        return summary

    @contextlib.contextmanager
    def workspace(self, uid: int | None) -> Iterator[Path]:
        """Give a folder under a name that cannot be guessed, owned by `uid`, for the time of one build."""
        folder = self.root / "work" / secrets.token_hex(16)
        folder.mkdir(mode=0o700)
        try:
            if uid is not None:
                os.chown(folder, uid, uid)
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def publish(self, name: str, collected: Path, uid: int, summary: Mapping[str, Any]) -> Path:
        """Copy what a build left in `collected` and show it under its name; the first to come stays.

        Raises ForeignFile where something there is not a plain file owned by `uid`.
        """
        staging = self.root / "work" / f"{secrets.token_hex(16)}-done"
        staging.mkdir(mode=0o700)
        try:
            _copy_extensions(collected, staging, uid)
            (staging / _SUMMARY).write_text(json.dumps(summary, indent=1), "utf-8")
            _make_read_only(staging)
            with contextlib.suppress(OSError):  # another build of the same source came first
                staging.rename(self.folder(name))
        finally:
            if staging.exists():
                staging.chmod(0o700)
                shutil.rmtree(staging, ignore_errors=True)
        return self.folder(name)


def _copy_extensions(collected: Path, staging: Path, uid: int) -> None:
    if not collected.is_dir() or collected.is_symlink():
        return
    folders = sorted(os.scandir(collected), key=lambda entry: entry.name)
    if len(folders) > MAX_EXTENSIONS:
        raise ForeignFile(f"a kernel may build {MAX_EXTENSIONS} extensions, found {len(folders)}")
    for folder in folders:
        if not _KEY.fullmatch(folder.name) or not folder.is_dir(follow_symlinks=False):
            raise ForeignFile(f"the build left {folder.name!r} among its extensions")
        (staging / folder.name).mkdir()
        for entry in os.scandir(folder.path):
            cap = MAX_ERROR_BYTES if entry.name == ERROR_FILE else MAX_LIBRARY_BYTES
            if entry.name != ERROR_FILE and not _LIBRARY.fullmatch(entry.name):
                raise ForeignFile(f"the build left {entry.name!r} among its extensions")
            _copy_plain(Path(entry.path), staging / folder.name / entry.name, uid, cap)


def _copy_plain(source: Path, target: Path, uid: int, cap: int) -> None:
    """Copy a file's bytes, so that no descriptor or link of the build reaches the copy."""
    try:
        descriptor = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise ForeignFile(f"the build left {source.name!r}, which cannot be read: {error.strerror}") from None
    facts = os.fstat(descriptor)
    owners = (uid, os.geteuid())  # where the walls left the process its uid, that is the owner
    if not stat.S_ISREG(facts.st_mode) or facts.st_nlink != 1 or facts.st_uid not in owners:
        os.close(descriptor)
        raise ForeignFile(f"the build left {source.name!r}, which is not a plain file of its own")
    with os.fdopen(descriptor, "rb") as reading, target.open("xb") as writing:
        left = cap
        while chunk := reading.read(_CHUNK_BYTES):
            left -= len(chunk)
            if left < 0:
                raise ForeignFile(f"{source.name!r} is larger than {cap} bytes")
            writing.write(chunk)


def _make_read_only(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        path.chmod(0o555 if path.is_dir() or path.suffix == ".so" else 0o444)
    folder.chmod(0o755)
