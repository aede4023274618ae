"""What runs on a cluster's machines: judges, builds, and a look at which devices there are. Imports no Ray.

A judge is the local engine on one device, fed as a stream. Whoever measures on a device holds a lock on it,
as does its oracle: what outlives its machine's killed agent keeps others off meanwhile.
"""

from __future__ import annotations

import fcntl
import functools
import logging
import os
import queue
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

from kernel_evaluator.building.builder import Builder, BuildStatus, default_cache_root
from kernel_evaluator.building.store import Store
from kernel_evaluator.building.toolchain import local_arch
from kernel_evaluator.engines.local import LocalEngine
from kernel_evaluator.engines.remote_build import Packed, pack, unpack
from kernel_evaluator.engines.wire import Answer, pack_answer, read_request
from kernel_evaluator.problems.jobs import Job, Settings, Verdict
from kernel_evaluator.records.version import evaluator_sha256

LOCK_WAIT_S = 120.0
"""Seconds that a device may still be held by what is dying."""
QUERY = ("nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits")
UUIDS = ("nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader")

_log = logging.getLogger(__name__)


class DeviceHeldError(Exception):
    """Somebody else measures on the device and does not end."""


def look() -> list[tuple[str, int]]:
    """Name this machine's GPUs, with their memory in MiB; [] where there is none."""
    try:
        answer = subprocess.run(QUERY, capture_output=True, text=True, timeout=60, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    lines = [line.rpartition(",") for line in answer.splitlines() if line.strip()]
    return [(name.strip(), int(float(memory))) for name, _, memory in lines]


def hold(device: str, wait_s: float = LOCK_WAIT_S, folder: Path | None = None) -> int:
    """Lock a device for as long as the descriptor that is given stays open in any process.

    Raises DeviceHeldError where another holds it for longer than `wait_s`.
    """
    folder = folder or Path(tempfile.gettempdir()) / f"kernel_evaluator-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    descriptor = os.open(folder / f"{device}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    until = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                os.close(descriptor)
                raise DeviceHeldError(f"{device} is held by another process for {wait_s:g} s") from None
            time.sleep(0.1)
        else:
            return descriptor


def device_name(device: str, node: str) -> str:
    """What the device is called on its machine: a GPU by its UUID, processors by the node that has them."""
    if device == "cpu":
        return f"cpu-{node}"
    index = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
    answer = subprocess.run(UUIDS, capture_output=True, text=True, timeout=60, check=True).stdout
    uuids = [line.strip() for line in answer.splitlines() if line.strip()]
    return uuids[int(index)] if index.isdecimal() else index


class Judge:
    """Judges on one device; several threads ask, each for its kernel."""

    def __init__(self, settings: Settings, node: str) -> None:
        self._settings = settings
        self._node = node
        self._jobs: queue.Queue[Job] = queue.Queue()
        self._lock = threading.Lock()
        self._waiting: dict[str, Future[Verdict]] = {}

    def start(self) -> dict[str, Any]:
        """Take hold of the device and make it ready; tell what judges there, and for what it builds."""
        held = hold(device_name(self._settings.device, self._node))
        threading.Thread(target=self._judge, args=(held,), daemon=True).start()
        return {"evaluator": evaluator_sha256(), "arch": local_arch(), "pid": os.getpid()}

    def judge(self, request: str, builds: Mapping[str, Packed] | None = None) -> str:
        """Judge the kernel of a request, with what was built for it; give the answer as JSON."""
        [job], _ = read_request(request)
        if builds:
            install(builds, default_cache_root())
        future: Future[Verdict] = Future()
        with self._lock:
            self._waiting[str(job.key)] = future
            self._jobs.put(job)
        return pack_answer(Answer(verdicts=(future.result(),)))

    def _judge(self, held: int) -> None:
        """Judge what comes; a fault of ours ends the process, so that others get its kernels."""
        try:
            for verdict in LocalEngine(held=(held,)).run(self._stream(), self._settings):
                with self._lock:
                    future = self._waiting.pop(str(verdict.row.key))
                future.set_result(verdict)
        except Exception:  # noqa: BLE001 (the log of this process says it, and the process ends)
            _log.exception("judging ended")
        finally:
            os._exit(1)

    def _stream(self) -> Iterator[Job]:
        while True:
            yield self._jobs.get()


def build(request: str, arch: str) -> tuple[dict[str, Any], dict[str, Packed]]:
    """Build the kernel of a request for a kind of GPU; tell how that ended, and give what came of it."""
    [job], settings = read_request(request)
    built = _builder(arch, settings.precision, settings.build_timeout_s).submit(job).result()
    files = {built.cache.name: pack(built.cache)} if built.cache is not None else {}
    told = {
        "status": built.status.value,
        "message": built.message,
        "log": built.log,
        "cpu_seconds": built.cpu_seconds,
    }
    return told, files if built.status is BuildStatus.BUILT else {}


def install(builds: Mapping[str, Packed], root: Path) -> None:
    """Lay builds into the cache of this machine, each whole, where they are not there yet."""
    store = Store(root)
    store.open()
    for name, files in builds.items():
        if store.read(name) is None:
            with store.workspace(None) as work:
                unpack({name: files}, work)
                with suppress(OSError):  # another judge of this machine came first
                    (work / name).rename(store.folder(name))


@functools.cache
def _builder(arch: str, precision: str, timeout_s: float) -> Builder:
    """One for all builds of this process, which Ray keeps: what it builds in takes seconds to start."""
    return Builder(arch=arch, precision=precision, timeout_s=timeout_s, workers=1)
