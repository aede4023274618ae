"""A root of its own for untrusted code: what a kernel needs is there, read-only, and nothing else is.

No `/run`, no `/var`, no sockets of the host's services, no devices but the GPU's. What is writable lies on
one file system in memory, so that it can be bounded and weighed.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SYSTEM = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "etc", "opt", "sys")
DEVICES = ("null", "zero", "full", "random", "urandom", "kfd", "dri")
GPU_DEVICES = "nvidia*"
SCRATCH = ("tmp", "var/tmp", "dev/shm")
_BARE = "mode=755,size=1m"
"""A folder of mount points alone."""

_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_REMOUNT, _MS_BIND, _MS_MOVE = 1, 2, 4, 32, 4096, 8192
_MS_REC, _MS_PRIVATE, _MS_RELATIME = 16384, 1 << 18, 1 << 21
_KEPT_FLAGS = {2: _MS_NOSUID, 4: _MS_NODEV, 8: 8, 1024: 1024, 2048: 2048, 4096: _MS_RELATIME}
"""Flags as `statvfs` gives them and as `mount` takes them: a remount must not drop what others locked."""

_SYS_PIVOT_ROOT, _MNT_DETACH = 155, 2
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, kw_only=True)
class Folders:
    """What is to be seen beside the system's folders, and what can be written.

    `readable` and `writable` are there by their own paths, whatever lies above. Temporary folders hold
    `scratch_bytes` together.
    """

    readable: Sequence[Path]
    writable: Sequence[Path]
    scratch_bytes: int
    proc_is_read_only: bool = False


def enter(folders: Folders) -> bool:
    """Put the calling process, in a mount namespace of its own, into such a root; False if that is refused.

    Where it is refused, nothing has changed that the process could see.
    """
    base = Path("/tmp")  # noqa: S108 (only covered, in this mount namespace)
    kept = {path: os.open(path, os.O_PATH) for path in _sources(folders.readable, folders.writable)}
    links = {name: Path("/", name).readlink() for name in SYSTEM if Path("/", name).is_symlink()}
    here = Path.cwd()
    try:
        _mount("none", "/", None, _MS_REC | _MS_PRIVATE)
        _mount("tmpfs", str(base), "tmpfs", _MS_NOSUID, f"mode=755,size={folders.scratch_bytes}")
        try:
            _furnish(base, kept, links, set(folders.writable))
            _mount_proc(base / "proc", folders)
            os.chdir(base)
            _turn()
        except OSError:
            os.chdir("/")
            _libc.umount2(bytes(base), _MNT_DETACH)
            raise
    except OSError:
        os.chdir(here)
        return False
    finally:
        for descriptor in kept.values():
            os.close(descriptor)
    return True


def cover(folders: Folders) -> None:
    """Where there can be no other root: give fresh temporary folders, and keep the folders named.

    Raises OSError where a mount is refused.
    """
    _mount("none", "/", None, _MS_REC | _MS_PRIVATE)
    temporary = {Path("/", name) for name in SCRATCH}
    shown = [path for path in folders.readable if path.is_dir() and path not in temporary]
    kept = {path: os.open(path, os.O_PATH | os.O_DIRECTORY) for path in (*folders.writable, *shown)}
    try:
        blockers = {blocker for path in kept if (blocker := closed_ancestor(path)) is not None}
        fresh = temporary | blockers
        for folder in sorted(each for each in fresh if each.is_dir()):
            _mount_fresh(folder, _BARE if folder in blockers else f"mode=1777,size={folders.scratch_bytes}")
        for path, descriptor in kept.items():
            if any(path.is_relative_to(folder) for folder in fresh):
                path.mkdir(parents=True, exist_ok=True)
                _mount(f"/proc/self/fd/{descriptor}", str(path), None, _MS_BIND | _MS_REC)
            if not any(other.is_relative_to(path) for other in folders.writable):
                _mount(str(path), str(path), None, _MS_BIND | _MS_REC)
                _mount("none", str(path), None, _MS_REMOUNT | _MS_BIND | _MS_RDONLY)
    finally:
        for descriptor in kept.values():
            os.close(descriptor)
    _mount_proc(Path("/proc"), folders)


def closed_ancestor(path: Path) -> Path | None:
    """The first folder on the way to `path` that others may not pass."""
    for folder in [*reversed(path.parents), path]:
        if not folder.stat().st_mode & 0o001:
            return folder if folder != path else None
    return None


def _closed_above(target: Path) -> Path | None:
    """The first folder on the way to `target` that is there and that others may not pass."""
    there = next(folder for folder in (target, *target.parents) if folder.exists())
    return closed_ancestor(there)


def _sources(readable: Sequence[Path], writable: Sequence[Path]) -> list[Path]:
    """What is to be seen inside, outer folders before inner ones, none of which lies within another.

    A readable folder that holds those for scratch is left out: it would cover them.
    """
    system = [Path("/", name) for name in SYSTEM if not Path("/", name).is_symlink()]
    devices = [*(Path("/dev", name) for name in DEVICES), *Path("/dev").glob(GPU_DEVICES)]
    outer = [path for path in system if path.is_dir()]
    covering = {folder for name in SCRATCH for folder in (Path("/", name), *Path("/", name).parents)}
    inner = {
        path
        for path in readable
        if path.is_dir() and path not in covering and not any(path.is_relative_to(o) for o in outer)
    }
    apart = [
        path for path in inner if not any(path != other and path.is_relative_to(other) for other in inner)
    ]
    return [*outer, *(path for path in devices if path.exists()), *sorted(apart), *sorted(writable)]


def _furnish(base: Path, kept: dict[Path, int], links: dict[str, Path], writable: set[Path]) -> None:
    """Lay out the root under `base`; raises OSError where a mount is refused."""
    for name in SCRATCH:
        folder = base / name
        folder.mkdir(parents=True)
        folder.chmod(0o1777)
    for name, target in links.items():
        (base / name).symlink_to(target)
    for source, descriptor in kept.items():
        target = base / source.relative_to("/")
        opened = Path("/proc/self/fd", str(descriptor))
        if source in writable and (blocker := _closed_above(target)) is not None:
            _mount_fresh(blocker, _BARE)
        if opened.is_dir():
            target.mkdir(parents=True, exist_ok=True)
        else:
            target.touch()
        _mount(str(opened), str(target), None, _MS_BIND | _MS_REC)
        if source not in writable and not source.is_relative_to("/dev"):
            flags = os.statvfs(target).f_flag
            locked = sum(mounted for said, mounted in _KEPT_FLAGS.items() if flags & said)
            _mount("none", str(target), None, _MS_REMOUNT | _MS_BIND | _MS_RDONLY | _MS_NOSUID | locked)
    for name, opened_as in (("fd", "fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
        (base / "dev" / name).symlink_to(f"/proc/self/{opened_as}")
    (base / "proc").mkdir()


def _mount_proc(target: Path, folders: Folders) -> None:
    flags = _MS_RDONLY if folders.proc_is_read_only else 0
    _mount("proc", str(target), "proc", _MS_NOSUID | _MS_NODEV | flags)


def _turn() -> None:
    """Make the working folder the root, and let go of the old one."""
    if _libc.syscall(_SYS_PIVOT_ROOT, b".", b".") == 0:
        _libc.umount2(b".", _MNT_DETACH)
    else:  # the first root of a machine cannot be turned, only covered
        _mount(".", "/", None, _MS_MOVE)
        os.chroot(".")
    os.chdir("/")


def _mount_fresh(folder: Path, options: str) -> None:
    _mount("tmpfs", str(folder), "tmpfs", _MS_NOSUID | _MS_NODEV, options)


def _mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    ended = _libc.mount(
        source.encode(), target.encode(), kind.encode() if kind else None, flags, options.encode() or None
    )
    if ended != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), target)
