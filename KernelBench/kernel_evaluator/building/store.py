"""The build cache on disk: one folder a kernel source and toolchain, written by the trusted side alone.

A folder holds `<key>/<name>.so` for every extension that the kernel builds, `<key>/error.txt` for one that
the compiler refused, `triton/<key>` for each of Triton's, and `build.json` with how the build ended. It
appears whole, by one rename, read-only.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernel_evaluator import secret_draws
from kernel_evaluator.building.child import COLLECTED
from kernel_evaluator.building.extensions import ERROR_FILE, MAX_ERROR_BYTES
from kernel_evaluator.building.triton_ahead import FOLDER as TRITON

MAX_LIBRARY_BYTES = 256 << 20
MAX_EXTENSIONS, MAX_TRITON = 32, 1024
_TRITON_KEY = r"[A-Z2-7]{52}"
TRITON_FILE = (
    rf"{TRITON}/{_TRITON_KEY}/[A-Za-z0-9_.\-]{{1,255}}\.(?:json|cubin|ptx|llir|ttgir|ttir|source|so)"
)
"""What Triton keeps of a kernel, in a build: each in a folder that is named by what went into it."""

_KEY = re.compile(r"[0-9a-f]{64}")
_LIBRARY = re.compile(r"[A-Za-z0-9_.\-]{1,200}\.so")
_SUMMARY = "build.json"
_CHUNK_BYTES = 1 << 20


class ForeignFile(Exception):
    """A build left something other than a plain file of its own, of a size that is allowed."""


@dataclass(frozen=True)
class Store:
    """The cache under `root`; `root` itself need not exist yet."""

    root: Path

    def open(self) -> None:
        """Create the folders, which nobody but their owner may list, and clear what killed builders left.

        Every folder of work is locked by its builder for as long as that lives.
        """
        for folder in (self.root, self.root / "work"):
            folder.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(PermissionError):
                folder.chmod(0o711)
        with _locked(self.root / "work"):
            for left in (self.root / "work").iterdir():
                with contextlib.suppress(OSError), _locked(left, wait=False):
                    _remove(left)

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
        with self._folder_of_work() as folder:
            if uid is not None:
                os.chown(folder, uid, uid)
            yield folder

    def publish(self, name: str, work: Path, uid: int, summary: Mapping[str, Any]) -> Path:
        """Copy what a build left in its folder of work and show it under its name; the first to come stays.

        Raises ForeignFile where something there is not a plain file owned by `uid`.
        """
        with self._folder_of_work() as staging:
            _copy_extensions(work / COLLECTED, staging, uid)
            _copy_triton(work / TRITON, staging / TRITON, uid)
            (staging / _SUMMARY).write_text(json.dumps(summary, indent=1), "utf-8")
            _make_read_only(staging)
            with contextlib.suppress(OSError):  # another build of the same source came first
                staging.rename(self.folder(name))
        return self.folder(name)

    @contextlib.contextmanager
    def _folder_of_work(self) -> Iterator[Path]:
        folder = self.root / "work" / secret_draws.folder_name()
        with contextlib.ExitStack() as held:
            with _locked(folder.parent):  # or who clears could take it between the two
                folder.mkdir(mode=0o700)
                held.enter_context(_locked(folder))
            try:
                yield folder
            finally:
                _remove(folder)


@contextlib.contextmanager
def _locked(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold a file or folder; raise BlockingIOError where another holds it and `wait` is not set."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield
    finally:
        os.close(descriptor)


def _remove(path: Path) -> None:
    if path.is_dir():
        path.chmod(0o700)
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _copy_extensions(collected: Path, staging: Path, uid: int) -> None:
    for folder in _folders(collected, _KEY, MAX_EXTENSIONS, "extensions"):
        (staging / folder.name).mkdir()
        for entry in os.scandir(folder):
            cap = MAX_ERROR_BYTES if entry.name == ERROR_FILE else MAX_LIBRARY_BYTES
            if entry.name != ERROR_FILE and not _LIBRARY.fullmatch(entry.name):
                raise ForeignFile(f"the build left {entry.name!r} among its extensions")
            _copy_plain(Path(entry.path), staging / folder.name / entry.name, uid, cap)


def _copy_triton(compiled: Path, target: Path, uid: int) -> None:
    """Copy what Triton kept; nothing where there is too much or anything odd: it is compiled again then."""
    try:
        for folder in _folders(compiled, re.compile(_TRITON_KEY), MAX_TRITON, "Triton's kernels"):
            (target / folder.name).mkdir(parents=True)
            for entry in os.scandir(folder):
                if re.fullmatch(TRITON_FILE, f"{TRITON}/{folder.name}/{entry.name}"):  # nothing else is read
                    _copy_plain(Path(entry.path), target / folder.name / entry.name, uid, MAX_LIBRARY_BYTES)
    except ForeignFile:
        shutil.rmtree(target, ignore_errors=True)


def _folders(parent: Path, names: re.Pattern[str], most: int, what: str) -> list[Path]:
    """The folders that a build left in one; raise ForeignFile for anything else."""
    if not parent.is_dir() or parent.is_symlink():
        return []
    found = sorted(os.scandir(parent), key=lambda entry: entry.name)
    if len(found) > most:
        raise ForeignFile(f"a kernel may build {most} {what}, found {len(found)}")
    for entry in found:
        if not names.fullmatch(entry.name) or not entry.is_dir(follow_symlinks=False):
            raise ForeignFile(f"the build left {entry.name!r} among its {what}")
    return [Path(entry.path) for entry in found]


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
