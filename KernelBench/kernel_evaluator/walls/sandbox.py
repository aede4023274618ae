"""The walls around untrusted code: namespaces, another uid, limits, a system call filter.

Every wall is raised where the machine allows it, and `confine` says which ones stand.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import struct
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kernel_evaluator.walls import probes, root, syscalls

FIRST_UID = 1 << 20
"""Candidates run as uids from here on, drawn at random: evaluations side by side never share one."""

UIDS = 1 << 29

_NAMESPACES = {
    "mount": ("mnt", 0x00020000),
    "uts": ("uts", 0x04000000),
    "ipc": ("ipc", 0x08000000),
    "network": ("net", 0x40000000),
}
_CLONE_NEWPID = 0x20000000
_CLONE_NEWUSER = 0x10000000
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS, _PR_SET_CHILD_SUBREAPER = 1, 38, 36
_NO_CAPABILITIES = (struct.pack("<Ii", 0x20080522, 0), bytes(24))
_DIES_FIRST = "1000"
_BLOCK_BYTES = 512
_STOP_S, _LOOK_AGAIN_S, _NOTHING_NEW = 0.2, 2e-5, 3
_STANDING = b"TtZX"
_PAGE = 4096
_CPUCLOCK_SCHED = 2
_NEW_SHARE, _NEW_CORES = ("setsid",), ("sched_setaffinity",)
"""Linux shares processors among sessions. What a process has is set by a file in /proc, too."""

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a confined process may use; 0 bytes of address space means no limit."""

    memory_bytes: int = 0
    processes: int = 512
    file_bytes: int = 4 << 30
    files: int = 4096
    scratch_bytes: int = 8 << 30


@dataclass(frozen=True, kw_only=True)
class Cell:
    """Where and as whom untrusted code runs.

    `workspace` becomes its home: private and writable. `readable` are folders that it must be able to read
    (the interpreter, the packages, a build cache); `writable` folders keep what it writes there. What
    `stands_back` cannot raise its share of the processors again, what `keeps_cores` cannot move to others.
    """

    uid: int
    limits: Limits = Limits()
    readable: Sequence[Path] = ()
    writable: Sequence[Path] = ()
    environment: Mapping[str, str] | None = None
    stands_back: bool = False
    keeps_cores: bool = False


def _private_folders(home: Path) -> dict[str, str]:
    """Point everything that keeps files at the private home; some libraries fixed theirs when imported."""
    return {
        "HOME": str(home),
        "TMPDIR": str(home),
        "XDG_CACHE_HOME": str(home / "cache"),
        "TRITON_HOME": str(home),
        "TRITON_CACHE_DIR": str(home / "triton"),
        "TORCHINDUCTOR_CACHE_DIR": str(home / "inductor"),
        "TORCH_EXTENSIONS_DIR": str(home / "extensions"),
        "CUDA_CACHE_PATH": str(home / "cuda"),
    }


def enter_pid_namespace() -> bool:
    """Make the next forked child the first process of a pid namespace: its death ends all others there.

    Without root this also opens a user namespace. False where the kernel refuses.
    """
    if os.geteuid() == 0:
        return bool(_libc.unshare(_CLONE_NEWPID) == 0)
    uid, gid = os.geteuid(), os.getegid()
    if _libc.unshare(_CLONE_NEWUSER | _CLONE_NEWPID) != 0:
        return False
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
    Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    return True


def confine(cell: Cell) -> list[str]:
    """Raise every wall around the calling process, for good; give the names of the walls that stand.

    Call it in a freshly forked child, before any untrusted code runs. A wall stands where what it forbids was
    tried and did not work.
    """
    with probes.before() as before:
        raised = ["pid"] if os.getpid() == 1 else []
        raised += [wall for wall, (name, flag) in _NAMESPACES.items() if _enter_namespace(name, flag)]
        home = Path("/tmp") / f"cell-{os.getpid()}"  # noqa: S108 (the mount namespace makes it private)
        _die_first()
        if "mount" in raised:
            raised += _change_root(cell)
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        _set_limits(cell.limits)
        raised += _change_uid(cell, home)
        die_with_parent()
        if _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0:
            raised.append("no-new-privileges")
        reaches_out = probes.reaches_out()
        refused = (*(_NEW_SHARE if cell.stands_back else ()), *(_NEW_CORES if cell.keeps_cores else ()))
        if syscalls.refuse(refused):
            raised.append("seccomp")
        standing = probes.standing(raised, before, cell.uid, (*cell.readable, *cell.writable))
        if reaches_out:
            standing.discard("network")
    os.chdir(home)
    os.environ.clear()
    os.environ.update({**(cell.environment or {}), **_private_folders(home)})
    os.environ["USER"] = "candidate"  # the uid has no name, and torch's compiler asks for one
    tempfile.tempdir = None  # which was found before, and lies outside
    return sorted(standing)


def _enter_namespace(name: str, flag: int) -> bool:
    """Whether the process has a namespace of its own: some only say so, and mounts would be the machine's."""
    was = probes.namespace(name)
    return _libc.unshare(flag) == 0 and probes.namespace(name) not in (None, was)


def _change_root(cell: Cell) -> list[str]:
    folders = root.Folders(
        readable=cell.readable,
        writable=cell.writable,
        scratch_bytes=cell.limits.scratch_bytes,
        proc_is_read_only=cell.stands_back,
    )
    if root.enter(folders):
        return ["root"]
    try:
        root.cover(folders)
    except OSError as error:  # what was covered so far stays so, and the probes see the rest
        sys.stderr.write(f"no mount at {error.filename}: {error.strerror}\n")
    return []


def _change_uid(cell: Cell, home: Path) -> list[str]:
    if os.geteuid() != 0:
        return []
    if unreadable := _unreadable(cell.readable):
        sys.stderr.write(f"the candidate keeps its uid: {unreadable[0]} is not readable to others\n")
        return []
    os.chown(home, cell.uid, cell.uid)
    os.setgroups([])
    os.setresgid(cell.uid, cell.uid, cell.uid)
    os.setresuid(cell.uid, cell.uid, cell.uid)
    if os.getuid() == cell.uid:  # a new uid keeps what it may inherit, which some containers give
        _libc.capset(*_NO_CAPABILITIES)
    return ["uid"]


def become_subreaper() -> None:
    """Adopt orphaned descendants, so that none escapes by a double fork."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_parent() -> None:
    """Ask the kernel to kill this process when the one that forked it ends."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _die_first() -> None:
    """Where memory runs out, let the kernel end who used it, not who judges or builds beside."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_DIES_FIRST, "ascii")


def descendants(pid: int) -> list[int]:
    """Give the process and all it started, as far as /proc shows."""
    found = [pid]
    for each in found:
        found.extend(_children(each))
    return found


def stop_all(pid: int) -> list[int]:
    """Stop a process and all it started, until all stand still and nothing is new; give what was stopped.

    A thread goes on with what it asked of the system, as with a fork, before it stands. What does not come to
    a stand in time, or forks and ends faster than it can be listed, is given up: that it runs on shows.
    """
    give_up = time.monotonic() + _STOP_S
    stopped: set[int] = set()
    nothing_new = 0
    # Between two parents a process is listed nowhere.
    while nothing_new < _NOTHING_NEW and time.monotonic() < give_up:
        new = set(descendants(pid)) - stopped
        signal_all(new, signal.SIGSTOP)
        stopped |= new
        nothing_new = 0 if new else nothing_new + 1
        while time.monotonic() < give_up and not all(map(_stands_still, new)):
            time.sleep(_LOOK_AGAIN_S)
    return sorted(stopped)


def processor_seconds(pids: Iterable[int]) -> float:
    """Sum the processor time that processes have used, all threads of each; the ended count nothing."""
    total = 0.0
    for pid in pids:
        with suppress(OSError):
            total += time.clock_gettime(~pid << 3 | _CPUCLOCK_SCHED)
    return total


def held_bytes(pids: Iterable[int]) -> int:
    """Sum the memory that processes hold: their own, what they share, files in memory; the ended hold none.

    What they share is counted once, as mapped or as files that nobody has mapped, whichever is more.
    """
    page = resource.getpagesize()
    own = shared = 0
    files: dict[tuple[int, int], int] = {}
    family = list(pids)
    for pid in family:
        try:
            resident, mapped = map(int, Path(f"/proc/{pid}/statm").read_text().split()[1:3])
        except (OSError, ValueError):
            continue
        own += (resident - mapped) * page
        shared += mapped * page
        files |= _memory_files(pid)
    return own + max(shared, sum(files.values())) + scratch_bytes(family)


def _memory_files(pid: int) -> dict[tuple[int, int], int]:
    """Bytes of the files without a name that a process has open (memfd), by device and number."""
    found = {}
    with suppress(OSError):
        for entry in os.scandir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                if os.readlink(entry.path).startswith("/memfd:"):  # noqa: PTH115 (no path that there is)
                    said = entry.stat()
                    found[said.st_dev, said.st_ino] = said.st_blocks * _BLOCK_BYTES
    return found


def scratch_bytes(pids: Iterable[int]) -> int:
    """What lies in the temporary folders of processes, where these are their own and so in memory."""
    found = {}
    for pid in pids:
        for name in root.SCRATCH:
            with suppress(OSError):
                theirs, ours = Path(f"/proc/{pid}/root", name).stat(), Path("/", name).stat()
                if theirs.st_dev != ours.st_dev:
                    usage = os.statvfs(f"/proc/{pid}/root/{name}")
                    found[theirs.st_dev] = (usage.f_blocks - usage.f_bfree) * usage.f_frsize
    return sum(found.values())


def waited_seconds(pid: int) -> float:
    """How long a process was ready to run and waited for a processor; 0 where Linux does not say."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def kill_all(pids: Iterable[int], uid: int | None = None) -> None:
    """Send SIGKILL to processes and, where they ran as a uid of their own, to everything of that uid."""
    targets = set(pids)
    if uid is not None and FIRST_UID <= uid < FIRST_UID + UIDS:
        targets |= {int(e.name) for e in Path("/proc").iterdir() if e.name.isdigit() and _uid_of(e) == uid}
    signal_all(targets, signal.SIGKILL)


def signal_all(pids: Iterable[int], which: signal.Signals) -> None:
    """Send a signal to processes; those that ended, or are not ours, are passed over."""
    for pid in pids:
        try:
            os.kill(pid, which)
        except (ProcessLookupError, PermissionError):
            continue


def _set_limits(limits: Limits) -> None:
    chosen = [
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, limits.file_bytes),
        (resource.RLIMIT_NOFILE, limits.files),
    ]
    if os.geteuid() == 0:
        chosen.append((resource.RLIMIT_NPROC, limits.processes))
    if limits.memory_bytes:
        chosen.append((resource.RLIMIT_AS, limits.memory_bytes))
    for which, value in chosen:
        hard = resource.getrlimit(which)[1]
        allowed = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(which, (allowed, allowed))


def _unreadable(paths: Sequence[Path]) -> list[Path]:
    return [path for path in paths if path.exists() and root.closed_ancestor(path) is not None]


def _children(pid: int) -> list[int]:
    """The children of all threads, without a `Path` for each: a timed round waits for this some ten times."""
    if not _lists_children():
        return _sought_children(pid)
    return [int(child) for said in _of_threads(pid, "children") for child in said.split()]


def _stands_still(pid: int) -> bool:
    """Whether all threads of a process are stopped or have ended, by the letter after the name of each."""
    return all(said.rpartition(b")")[2].strip()[:1] in _STANDING for said in _of_threads(pid, "stat"))


def _of_threads(pid: int, name: str) -> Iterator[bytes]:
    """What a file of /proc says of each thread of a process; those that have ended are passed over."""
    with suppress(OSError):
        for task in os.scandir(f"/proc/{pid}/task"):
            with suppress(OSError):
                yield _read(f"{task.path}/{name}")


def _read(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return b"".join(iter(lambda: os.read(descriptor, _PAGE), b""))
    finally:
        os.close(descriptor)


@cache
def _lists_children() -> bool:
    """Whether /proc names children; some kernels are built without."""
    return Path("/proc/thread-self/children").exists()


def _sought_children(pid: int) -> list[int]:
    """Children as every process on the machine names its parent; slower than a list of them."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError, IndexError):
            if (
                entry.name.isdigit()
                and int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == pid
            ):
                found.append(int(entry.name))
    return found


def _uid_of(entry: Path) -> int | None:
    try:
        return entry.stat().st_uid
    except OSError:
        return None
