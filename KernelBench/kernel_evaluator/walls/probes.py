"""Tries what each wall forbids, once all are raised and before untrusted code runs.

A wall stands only where that did not work. Some machines say yes to a wall and raise none.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from kernel_evaluator.walls import root

_ELSEWHERE = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))
"""Addresses that documents use. A datagram's socket asks for a way there, and sends nothing."""

_OTHERS = 16
_PR_GET_NO_NEW_PRIVS = 39
_SHMGET, _ADD_KEY, _PROCESS_VM_READV, _IO_URING_SETUP, _CLONE3 = 29, 248, 310, 425, 435
_REFUSED = {
    _SHMGET: errno.EPERM,
    _ADD_KEY: errno.EPERM,
    _PROCESS_VM_READV: errno.EPERM,
    _IO_URING_SETUP: errno.ENOSYS,
    _CLONE3: errno.ENOSYS,
}

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, kw_only=True)
class Before:
    """What a process sees before its walls are raised. `root` is a descriptor of the folder above all."""

    root: int
    devices: dict[str, int]
    others: tuple[int, ...]


@contextmanager
def before() -> Iterator[Before]:
    """Look around, and let go of it all at the end."""
    above = os.open("/", os.O_PATH | os.O_DIRECTORY)
    try:
        yield Before(
            root=above,
            devices=_devices(above),
            others=tuple(sorted(_listed())[-_OTHERS:]),
        )
    finally:
        os.close(above)


def standing(raised: Iterable[str], before: Before, uid: int, folders: Sequence[Path]) -> set[str]:
    """Give those walls of `raised` that hold. `folders` are those that are to be seen beside the system's."""
    tries: dict[str, Callable[[], bool]] = {
        "mount": lambda: _mounts_stay_inside(before) and not _can_mount(),
        "root": lambda: _sees_only(folders) and not any(map(_can_write, root.SYSTEM)),
        "pid": lambda: not any(map(_can_signal, before.others)),
        "network": lambda: True,  # tried before the filter, which refuses all sockets
        "ipc": lambda: True,  # what is shared has numbers for names, so its namespace's own is all to ask for
        "uts": lambda: not _can_rename_host(),
        "uid": lambda: set(os.getresuid()) == {uid} and not _can_be_root() and not _capabilities(),
        "no-new-privileges": lambda: int(_libc.prctl(_PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)) == 1,
        "seccomp": lambda: not _can_open_socket() and all(map(_is_refused, _REFUSED)),
    }
    return {name for name in raised if _holds(tries[name])}


def _holds(attempt: Callable[[], bool]) -> bool:
    try:
        return attempt()
    except OSError:  # what should be there to be tried is not
        return False


def reaches_out() -> bool:
    """Whether there is a way from here to another machine."""
    for family, address in _ELSEWHERE:
        with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as asking:
            asking.connect((address, 9))
            return True
    return False


def _devices(above: int) -> dict[str, int]:
    """On which file system each temporary folder lies, as seen from a folder above."""
    found = {}
    for name in root.SCRATCH:
        with suppress(OSError):
            found[name] = os.stat(name, dir_fd=above).st_dev
    return found


def namespace(name: str) -> int | None:
    """Which namespace of a kind the process is in; None where the machine does not say."""
    try:
        return Path("/proc/self/ns", name).stat().st_ino
    except OSError:
        return None


def _listed() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _mounts_stay_inside(before: Before) -> bool:
    """Whether temporary folders are new here, and the same as ever where the process came from."""
    now = {name: Path("/", name).stat().st_dev for name in before.devices}
    return _devices(before.root) == before.devices and all(now[name] != before.devices[name] for name in now)


def _can_mount() -> bool:
    return bool(_libc.mount(b"tmpfs", b"/tmp", b"tmpfs", 0, None) == 0)


def _sees_only(folders: Sequence[Path]) -> bool:
    """Whether nothing stands in the root but the system's folders and what leads to those named."""
    named = {path.parts[1] for path in folders if len(path.parts) > 1}
    return set(os.listdir("/")) <= {*root.SYSTEM, "dev", "proc", "tmp", "var", *named}  # noqa: PTH208


def _can_write(name: str) -> bool:
    """Whether a folder of the system can be written, whoever asks."""
    folder = Path("/", name)
    if not folder.is_dir():
        return False
    probe = folder / f".probe-{os.getpid()}"
    try:
        os.close(os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError:
        return not os.statvfs(folder).f_flag & os.ST_RDONLY
    probe.unlink()
    return True


def _can_signal(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # it is there
    return pid != os.getpid()


def _can_rename_host() -> bool:
    name = os.uname().nodename.encode()
    return bool(_libc.sethostname(name, len(name)) == 0)


def _can_be_root() -> bool:
    try:
        os.setresuid(0, 0, 0)
    except PermissionError:
        return False
    return True


def _capabilities() -> int:
    """The privileges that the process has or may take, as bits."""
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    kinds = ("CapInh:", "CapPrm:", "CapEff:", "CapAmb:")
    return sum(int(line.split()[1], 16) for line in lines if line.startswith(kinds))


def _can_open_socket() -> bool:
    try:
        socket.socket(socket.AF_INET).close()
    except PermissionError:
        return False
    except OSError:
        return True  # another reason than the filter
    return True


def _is_refused(number: int) -> bool:
    """Whether the filter answers a call that would do nothing, or fail for another reason."""
    answer = _libc.syscall(number, 0, 0, 0, 0, 0, 0)
    return answer == -1 and ctypes.get_errno() == _REFUSED[number]
