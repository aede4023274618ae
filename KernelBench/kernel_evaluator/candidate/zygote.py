"""The process from which runners are forked: torch is loaded, no CUDA context exists.

It runs no submitted code itself. It forks on request, hands each child its socket, and ends children.
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from kernel_evaluator.walls import sandbox
from kernel_evaluator.walls.hangup import ended_by_hangup

_REAP_S = 10.0
_BROKEN = 70


def main(control_fd: int, temporary: str) -> None:
    """Serve fork and kill requests on a socket until it closes; then end all that was forked.

    Works in a folder of its own below `temporary`, and removes it at the end, whatever became of who started
    it: what the reference's process writes goes away with it.
    """
    zygote = os.getpid()
    folder = tempfile.mkdtemp(prefix="kernel_evaluator-", dir=temporary)
    os.chdir(folder)
    tidy = partial(shutil.rmtree, folder, ignore_errors=True)
    try:
        with ended_by_hangup(control_fd, tidy):
            _preload()
        _serve(control_fd)
    finally:
        if os.getpid() == zygote:  # no child that failed on its way
            tidy()
    sys.stdout.flush()
    os._exit(0)  # what is frozen is not freed, of which libraries would write a page


def _serve(control_fd: int) -> None:
    sandbox.become_subreaper()
    control = socket.socket(fileno=control_fd)
    children = _Children()
    try:
        control.sendall(b"ready\n")
        _answer(control, children)
    except (BrokenPipeError, ConnectionResetError):  # who asked is gone
        children.end_all()


def _answer(control: socket.socket, children: _Children) -> None:
    while True:
        message, fds, _, _ = socket.recv_fds(control, 1 << 16, 4)
        if not message:
            children.end_all()
            return
        request = json.loads(message)
        answer: dict[str, Any] = {}
        if request["do"] == "fork":
            keeper, pid = _fork(request, fds, control.fileno())
            children.add(pid, keeper, request["uid"])
            answer["pid"] = pid
        elif request["do"] == "kill":
            children.kill(request["pid"])
        elif request["do"] == "ended":
            answer["ended"] = children.has_ended(request["pid"])
        elif request["do"] == "status":
            answer["status"] = children.collect(request["pid"])
        else:
            _load_compiler()
        control.sendall(json.dumps(answer).encode() + b"\n")


def _preload() -> None:
    import torch
    import torch.utils.cpp_extension

    from kernel_evaluator.building import extensions  # noqa: F401
    from kernel_evaluator.candidate import runner  # noqa: F401

    if torch.version.cuda or torch.version.hip:
        _load_triton()
    _freeze()


def _load_triton() -> None:
    """Load Triton with its driver and its digest, which each process would else compile and work out anew."""
    with suppress(ImportError, RuntimeError, AssertionError, OSError, subprocess.SubprocessError):
        import triton.experimental.gluon
        import triton.language  # noqa: F401
        from triton.runtime import driver

        _ = driver.active.utils
    with suppress(ImportError):
        from triton.runtime.cache import triton_key

        triton_key()


def _load_compiler() -> None:
    # Its pool of workers would start at the import, outside the walls of whoever compiles.
    os.environ["TORCH_WARM_POOL"] = "0"
    import torch._dynamo
    import torch._inductor.compile_fx

    with suppress(ImportError, AttributeError):  # what a first compilation loads, where torch names it so
        import torch._inductor.choices
        import torch._inductor.fx_passes.fuse_attention
        from torch._inductor.codecache import torch_key
        from torch._inductor.codegen.common import init_backend_registration

        torch._dynamo.list_backends()
        init_backend_registration()
        torch_key()
    _freeze()


def _freeze() -> None:
    """What is loaded now need not be looked at again in any child."""
    gc.collect()
    gc.freeze()


def _fork(request: dict[str, Any], fds: list[int], control_fd: int) -> tuple[int, int]:
    """Fork a keeper that forks the runner inside its own pid namespace; give the pids of both."""
    read_end, write_end = os.pipe()
    keeper = os.fork()
    if keeper == 0:
        os.close(control_fd)
        os.close(read_end)
        _keep(request, fds, write_end)
    os.close(write_end)
    for fd in fds:
        os.close(fd)
    with os.fdopen(read_end) as pipe:
        return keeper, int(pipe.readline() or keeper)


def _keep(request: dict[str, Any], fds: list[int], write_end: int) -> None:
    os.setsid()
    sandbox.die_with_parent()
    if request["confine"]:
        sandbox.enter_pid_namespace()
    runner = os.fork()
    if runner == 0:
        os.close(write_end)
        code = _BROKEN
        try:
            _become_runner(request, fds)
            code = 0
        except BaseException:  # noqa: BLE001 (a fork must not run on in its parent's frames)
            traceback.print_exc()
        finally:
            os._exit(code)
    os.write(write_end, b"%d\n" % runner)
    os.close(write_end)
    for fd in fds:
        os.close(fd)
    _, status = os.waitpid(runner, 0)
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)


def _become_runner(request: dict[str, Any], fds: list[int]) -> None:
    import torch

    from kernel_evaluator.building import extensions, triton_ahead
    from kernel_evaluator.candidate.frames import Channel
    from kernel_evaluator.candidate.runner import Runner

    channel_fd, log_fd = fds
    os.dup2(log_fd, 1)
    os.dup2(log_fd, 2)
    os.close(log_fd)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if request["cores"]:
        os.sched_setaffinity(0, request["cores"])
    cache = Path(request["cache"]) if request["cache"] else None
    walls: list[str] = []
    if request["confine"]:
        cell = sandbox.Cell(
            uid=request["uid"],
            limits=sandbox.Limits(
                memory_bytes=request["address_bytes"],
                scratch_bytes=min(sandbox.Limits.scratch_bytes, request["memory_bytes"]),
            ),
            readable=[Path(path) for path in request["readable"]],
            environment=request["environment"],
            keeps_cores=bool(request["cores"]),
        )
        walls = sandbox.confine(cell)
        triton_ahead.lay_out(cache)
    sys.stderr.write(f"walls: {' '.join(walls)}\n")
    sys.stderr.flush()
    torch.set_num_threads(request["threads"])
    install: Callable[[], object] | None = None
    if request["confine"]:
        install = lambda: extensions.install(cache, Path.cwd() / "extensions")  # noqa: E731
    channel = Channel(socket.socket(fileno=channel_fd))
    Runner(channel, request["device"], extensions=install, is_candidate=request["confine"]).serve()


class _Children:
    """The runners that were forked and not yet collected. Killing does not wait, so that others can start."""

    def __init__(self) -> None:
        self._keepers: dict[int, tuple[int, int]] = {}
        self._exit_codes: dict[int, int] = {}

    def add(self, pid: int, keeper: int, uid: int) -> None:
        """Note a runner, its keeper, and the uid of its own that it may run as."""
        self._keepers[pid] = (keeper, uid)

    def kill(self, pid: int) -> None:
        """Kill a runner with everything it started."""
        keeper, uid = self._keepers[pid]
        collected = keeper in self._exit_codes  # its number may be another process's by now
        family = [] if collected else [child for child in sandbox.descendants(keeper) if child != keeper]
        sandbox.kill_all({*family, pid} if family else family, uid)

    def has_ended(self, pid: int) -> bool:
        """Whether a runner has ended by itself, or been ended by the system."""
        self._reap()
        return self._keepers[pid][0] in self._exit_codes

    def collect(self, pid: int) -> int | None:
        """Give an ended runner's exit code as a shell would, 128 + n for signal n; None while it is there.

        A runner that died before it was killed is a matter of its keeper's exit code alone.
        """
        self._reap()
        keeper, _ = self._keepers[pid]
        if keeper not in self._exit_codes:
            return None
        del self._keepers[pid]
        return self._exit_codes.pop(keeper)

    def end_all(self) -> None:
        """Kill every runner and wait until it is gone."""
        for pid in self._keepers:
            self.kill(pid)
        deadline = time.monotonic() + _REAP_S
        while self._keepers and time.monotonic() < deadline:
            for pid in list(self._keepers):
                self.collect(pid)
            time.sleep(0.002)

    def _reap(self) -> None:
        """Collect what has ended, adopted processes included."""
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                self._exit_codes[ended[0]] = os.waitstatus_to_exitcode(ended[1])
