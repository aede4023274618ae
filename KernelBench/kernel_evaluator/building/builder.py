"""Building apart from judging: a pool of processes without a GPU that compile kernels into a private cache.

Trusted side. It never imports a kernel: every build is a confined process, and what that process leaves is
looked at, copied and made read-only here. A kernel's cache is its own, so none can reach another's.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import IO, Any

from kernel_evaluator.building.child import COLLECTED, OUTCOME
from kernel_evaluator.building.limits import BuildLimits, Waiting
from kernel_evaluator.building.server import LEAN, BuildServer, Running
from kernel_evaluator.building.store import MAX_EXTENSIONS, ForeignFile, Store
from kernel_evaluator.building.toolchain import local_arch, toolchain_sha256
from kernel_evaluator.building.triton_ahead import FOLDER as TRITON
from kernel_evaluator.labels.sources import SourceFacts, recognise
from kernel_evaluator.machine import main_memory, processors
from kernel_evaluator.problems.jobs import Job
from kernel_evaluator.records.places import PACKAGE
from kernel_evaluator.walls import sandbox

CACHE_VARIABLE = "KERNELBENCH_CACHE"
MAX_LOG_CHARACTERS = 16 * 1024

_LOOK_EVERY_S = 0.5
_REPORT_S = 2.0
_OUTCOME_BYTES = 1 << 20
_MAX_LINE = 400
_WORKERS_PER_CORE = 0.75
_KILLED = re.compile(r"Killed signal terminated program|terminated by signal 9|\(signal 9\)")
_BUILT_LATER = {
    True: "a compiler was killed, as where memory runs out; the kernel is built where it is judged",
    False: "the source could not be executed without a GPU",
}
_HEADERS = ("CUTLASS_PATH", "MATHDX_ROOT", "THUNDERKITTENS_ROOT")
_PASSED_ON = ("PATH", "LANG", "CUDA_HOME", "CUDA_PATH", "CC", "CXX", "LD_LIBRARY_PATH", *_HEADERS)


class BuildStatus(StrEnum):
    """How a build ended. `unknown`: the source could not be executed without a GPU, so judge it on one."""

    BUILT = "built"
    NOT_NEEDED = "not_needed"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True)
class Built:
    """What came of one job: `cache` is the folder that the candidate reads, `log` the log's end."""

    status: BuildStatus
    cache: Path | None = None
    log: str = ""
    message: str = ""
    cpu_seconds: float = 0.0
    seconds: float = 0.0
    headers: tuple[str, ...] = ()
    """For each extension, whether it took `slim` or `full` headers, as the build itself says."""
    reused: bool = False


class Builder:
    """A pool that builds jobs in advance. Use as a context manager; leaving it ends what still runs."""

    def __init__(
        self,
        *,
        cache_root: Path | None = None,
        workers: int | None = None,
        arch: str | None = None,
        precision: str = "fp32",
        timeout_s: float = 600.0,
        memory_gb: float = 16.0,
        written_gb: float = 4.0,
        slim_headers: bool = True,
    ) -> None:
        """Set up the pool.

        `arch` is a value for TORCH_CUDA_ARCH_LIST such as `9.0a`; by default that of this machine's first
        GPU, empty where there is none. `precision` is that of the inputs, for which Triton compiles.
        `timeout_s`, `memory_gb` and `written_gb` limit one build, all its processes together; on a small
        machine `memory_gb` is less.
        """
        self.arch = local_arch() if arch is None else arch
        self._precision = precision
        numbers = re.search(r"(\d+)\.(\d+)", self.arch)  # none in a name such as Hopper
        self._capability = [int(number) for number in numbers.groups()] if numbers else None
        self.workers = workers or max(1, round(processors.available() * _WORKERS_PER_CORE))
        self._limits = BuildLimits(
            timeout_s=timeout_s,
            memory_bytes=int(main_memory.bound_gb(memory_gb, main_memory.BUILDS_SHARE, self.workers) * 2**30),
            written_bytes=int(written_gb * 2**30),
        )
        self._slim_headers = slim_headers
        self._store = Store((cache_root or default_cache_root()).absolute())
        self._toolchain = toolchain_sha256(self.arch)
        self._server = BuildServer(sorted(os.sched_getaffinity(0))[: self.workers])
        self._pool = ThreadPoolExecutor(self.workers, thread_name_prefix="build")
        self._slots = list(range(self.workers))
        self._lock = threading.Lock()
        self._submitted: dict[str, Future[Built]] = {}
        self._closing = threading.Event()

    def __enter__(self) -> Builder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the pool: builds that run are killed, those that wait are cancelled."""
        self._closing.set()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._server.close()

    def submit(self, job: Job) -> Future[Built]:
        """Build a job's extensions; done at once where the source needs none or they are in the cache."""
        facts = recognise(job.source)
        name = self._name(job, facts)
        with self._lock:
            if name not in self._submitted:
                self._submitted[name] = self._start(job, facts, name)
            return self._submitted[name]

    def _name(self, job: Job, facts: SourceFacts) -> str:
        """Name the job's folder in the cache; what is built by a call may hang on its inputs too."""
        parts = [job.kernel_sha256, self._toolchain]
        parts += [job.problem.sha256, self._precision] if self._is_called(facts) else []
        return hashlib.sha256(" ".join(parts).encode()).hexdigest()

    def _start(self, job: Job, facts: SourceFacts, name: str) -> Future[Built]:
        future: Future[Built] = Future()
        if not (facts.needs_build or self._is_called(facts)):
            future.set_result(Built(status=BuildStatus.NOT_NEEDED))
            return future
        known = self._store.read(name)
        if known is not None:
            future.set_result(_from_summary(known, self._store.folder(name)))
            return future
        return self._pool.submit(self._build, job, facts, name)

    def _build(self, job: Job, facts: SourceFacts, name: str) -> Built:
        self._store.open()
        with self._lock:
            slot = self._slots.pop()
        uid = _uid_of(slot)
        try:
            with self._store.workspace(uid) as work:
                run = self._run(job, facts, work, uid)
                return self._conclude(run, facts, name, work, uid)
        finally:
            if uid is not None:
                sandbox.kill_all([], uid)
            with self._lock:
                self._slots.append(slot)

    def _run(self, job: Job, facts: SourceFacts, work: Path, uid: int | None) -> _Run:
        request = {
            "work": str(work),
            "uid": uid or os.getuid(),
            "scratch_bytes": min(sandbox.Limits.scratch_bytes, self._limits.memory_bytes),
            "file_bytes": 1 << 30,
            "readable": [str(path) for path in _readable()],
            "environment": _environment(),
            "arch": self.arch,
            "capability": self._capability,
            "slim_headers": self._slim_headers,
            "has_triton": self._has_triton(facts),
            "source": job.source,
            "kernel_sha256": job.kernel_sha256,
            "problem": job.problem.sized_source if self._is_called(facts) else "",
            "precision": self._precision,
        }
        with tempfile.TemporaryFile(dir=work.parent) as log:
            return self._wait(self._server.start(request, log), log, work, uid)

    def _wait(self, running: Running, log: IO[bytes], work: Path, uid: int | None) -> _Run:
        """Wait for a build within its limits; kill it and all it started where it breaks one."""
        started = time.monotonic()
        stopped, waiting = "", Waiting()
        while not running.wait(_LOOK_EVERY_S):
            passed_s = time.monotonic() - started
            waiting.note(running.keeper)
            cancelled = "the build was cancelled" if self._closing.is_set() else ""
            stopped = cancelled or self._limits.broken(running.keeper, passed_s, waiting.seconds, work)
            if stopped:
                _kill(running, uid)
                break
        running.close()
        end = running.end or {}
        return _Run(
            stopped=stopped,
            exit_code=end.get("exit_code", -9),
            log=_tail(log),
            cpu_seconds=end.get("cpu_seconds", 0.0),
            seconds=time.monotonic() - started,
        )

    def _conclude(self, run: _Run, facts: SourceFacts, name: str, work: Path, uid: int | None) -> Built:
        """Turn a run into its outcome; what could end otherwise another time is not kept."""
        spent = Built(
            status=BuildStatus.UNKNOWN,
            log=_readable_log(run.log, work),
            cpu_seconds=run.cpu_seconds,
            seconds=run.seconds,
        )
        if run.stopped:
            is_fault = facts.needs_build and not self._closing.is_set()
            status = BuildStatus.FAILED if is_fault else BuildStatus.UNKNOWN
            return replace(spent, status=status, message=run.stopped)
        outcome = _read_outcome(work / OUTCOME)
        if outcome is None:
            message = f"the build process ended with {run.exit_code} before its outcome"
            return replace(spent, status=BuildStatus.UNKNOWN, message=message)
        error = str(outcome.get("error", ""))
        said = "" if outcome.get("compile_error") else spent.log
        log = "\n".join(filter(None, [said, _readable_log(error, work)]))
        headers = tuple(str(name) for name in outcome.get("headers", [])[:MAX_EXTENSIONS])
        built = replace(spent, log=log, headers=headers)
        is_killed = bool(outcome.get("compile_error") and _KILLED.search(log))
        if outcome.get("compile_error") and not is_killed:
            built = replace(built, status=BuildStatus.FAILED, message="the extension does not compile")
        elif not is_killed and (not error or any(_finished(work))):
            built = replace(built, status=BuildStatus.BUILT)
        else:
            return replace(built, message=_BUILT_LATER[is_killed])
        try:
            summary = {**asdict(built), "cache": None}
            folder = self._store.publish(name, work, uid or os.getuid(), summary)
        except ForeignFile as foreign:
            return replace(built, status=BuildStatus.FAILED, message=str(foreign))
        except OSError as error:
            message = f"what was built could not be kept: {error.strerror}"
            return replace(built, status=BuildStatus.UNKNOWN, message=message)
        return replace(built, cache=folder)

    def _has_triton(self, facts: SourceFacts) -> bool:
        """Whether Triton's kernels can be compiled ahead, for a GPU that is known."""
        return facts.has_triton and self._capability is not None

    def _is_called(self, facts: SourceFacts) -> bool:
        """Whether the model is made and called, for what is built by that."""
        return facts.builds_late or self._has_triton(facts)


@dataclass(frozen=True, kw_only=True)
class _Run:
    stopped: str
    exit_code: int
    log: str
    cpu_seconds: float
    seconds: float


def default_cache_root() -> Path:
    """Where builds are kept: KERNELBENCH_CACHE, or a folder of the user's own cache."""
    chosen = os.environ.get(CACHE_VARIABLE)
    return Path(chosen) if chosen else Path.home() / ".cache" / "kernel_evaluator" / "builds"


def _kill(running: Running, uid: int | None) -> None:
    """Kill what a build started, then its keeper, which may report before."""
    if running.keeper:
        family = sandbox.descendants(running.keeper)
        sandbox.kill_all([pid for pid in family if pid != running.keeper], uid)
        if not running.wait(_REPORT_S):
            sandbox.kill_all([running.keeper])


def _environment() -> dict[str, str]:
    """The kernel's environment while it builds: the tools' paths, no GPU, few threads, nothing else."""
    passed = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    interpreter = str(Path(sys.executable).parent)  # where a virtual environment keeps ninja
    passed["PATH"] = os.pathsep.join([interpreter, passed.get("PATH", os.defpath)])
    return {**passed, **LEAN, "MAX_JOBS": "4", "LC_ALL": "C.UTF-8"}


def _readable() -> list[Path]:
    """Folders that the confined process must be able to read: interpreter, packages, toolkit, headers."""
    toolkit = shutil.which("nvcc")
    named = [sys.prefix, sys.base_prefix, *sys.path]
    named += [os.environ.get(name, "") for name in ("CUDA_HOME", "CUDA_PATH", *_HEADERS)]
    named += [str(Path(toolkit).resolve().parent.parent)] if toolkit else []
    folders = {Path(path).resolve() for path in named if path and Path(path).is_dir()}
    return sorted({folder for folder in folders | {PACKAGE} if folder != Path("/")})


def _uid_of(slot: int) -> int | None:
    """A uid for each of a builder's slots, apart from those of candidates; None without root."""
    if os.geteuid() != 0:
        return None
    builds = sandbox.UIDS // 2
    return sandbox.FIRST_UID + builds + (os.getpid() * 37 + slot) % builds


def _read_outcome(path: Path) -> dict[str, Any] | None:
    """Read what the build says of itself: its error, and whether that came from the compiler. A claim."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            outcome = json.loads(file.read(_OUTCOME_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    return outcome if isinstance(outcome, dict) and isinstance(outcome.get("headers"), list) else None


def _from_summary(summary: dict[str, Any], folder: Path) -> Built:
    known = {name: summary[name] for name in ("log", "message", "seconds") if name in summary}
    return Built(**known, status=BuildStatus(summary["status"]), cache=folder, reused=True)


def _finished(work: Path) -> Iterator[Path]:
    """What a build has finished, whatever became of the rest."""
    yield from (work / COLLECTED).glob("*/*.so")
    yield from (work / TRITON).glob("*/*.cubin")


def _tail(log: IO[bytes]) -> str:
    size = log.seek(0, os.SEEK_END)
    log.seek(max(0, size - 4 * MAX_LOG_CHARACTERS))
    return log.read(4 * MAX_LOG_CHARACTERS).decode("utf-8", "replace")


def _readable_log(text: str, work: Path) -> str:
    """Shorten a log for people: without the compilers' command lines and folders of this machine."""
    text = re.sub(re.escape(str(work)) + r"(?:/scratch/[^/\s]+/(?:slim|full))?/?", "", text)
    lines = [line for line in text.splitlines() if "-DTORCH_EXTENSION_NAME=" not in line]
    lines = [line if len(line) <= _MAX_LINE else line[:_MAX_LINE] + " …" for line in lines]
    return "\n".join(lines)[-MAX_LOG_CHARACTERS:]
