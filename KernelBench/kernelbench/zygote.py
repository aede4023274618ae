"""The process from which runners are forked: torch is loaded, no CUDA context exists.

It runs no submitted code itself. It forks on request, hands each child its socket, and ends children.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kernelbench import sandbox

_REAP_S = 10.0
_exit_codes: dict[int, int] = {}


def main(control_fd: int) -> None:
    """Serve fork and kill requests on a socket until it closes."""
    _preload()
    gc.collect()
    gc.freeze()  # what is loaded now need not be looked at again in any child
    sandbox.become_subreaper()
    control = socket.socket(fileno=control_fd)
    control.sendall(b"ready\n")
    children: dict[int, tuple[int, int]] = {}
    while True:
        message, fds, _, _ = socket.recv_fds(control, 1 << 16, 4)
        if not message:
            for pid, (keeper, uid) in children.items():
                _end(pid, keeper, uid)
            return
        request = json.loads(message)
        if request["do"] == "fork":
            keeper, pid = _fork(request, fds, control_fd)
            children[pid] = (keeper, request["uid"])
            answer: dict[str, Any] = {"pid": pid}
        else:
            answer = {"status": _end(request["pid"], *children.pop(request["pid"]))}
        control.sendall(json.dumps(answer).encode() + b"\n")


def _preload() -> None:
    import torch
    import torch.utils.cpp_extension  # noqa: F401

    from kernelbench import extensions, runner  # noqa: F401

    try:
        import triton
        import triton.language  # noqa: F401
    except ImportError:
        return


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
    walls = ["pid"] if request["confine"] and sandbox.enter_pid_namespace() else []
    runner = os.fork()
    if runner == 0:
        os.close(write_end)
        _become_runner(request, fds, walls)
        os._exit(0)
    os.write(write_end, b"%d\n" % runner)
    os.close(write_end)
    for fd in fds:
        os.close(fd)
    _, status = os.waitpid(runner, 0)
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)


def _become_runner(request: dict[str, Any], fds: list[int], walls: list[str]) -> None:
    import torch

    from kernelbench import extensions
    from kernelbench.frames import Channel
    from kernelbench.runner import Runner

    channel_fd, log_fd = fds
    os.dup2(log_fd, 1)
    os.dup2(log_fd, 2)
    os.close(log_fd)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    cache = Path(request["cache"]) if request["cache"] else None
    if request["confine"]:
        cell = sandbox.Cell(
            uid=request["uid"],
            limits=sandbox.Limits(memory_bytes=request["memory_bytes"]),
            readable=[Path(path) for path in request["readable"]],
            environment=request["environment"],
        )
        walls += sandbox.confine(cell)
    sys.stderr.write(f"walls: {' '.join(walls)}\n")
    sys.stderr.flush()
    torch.set_num_threads(request["threads"])
    install: Callable[[], object] | None = None
    if request["confine"]:
        install = lambda: extensions.install(cache, Path.cwd() / "extensions")  # noqa: E731
    Runner(Channel(socket.socket(fileno=channel_fd)), request["device"], extensions=install).serve()


def _end(pid: int, keeper: int, uid: int) -> int:
    """Kill a runner with everything it started; give its exit code as a shell would, 128 + n for signal n.

    A runner that died before is a matter of its keeper's exit code alone.
    """
    family = [child for child in sandbox.descendants(keeper) if child != keeper]
    sandbox.kill_all({*family, pid} if family else family, uid)
    deadline = time.monotonic() + _REAP_S
    while keeper not in _exit_codes and time.monotonic() < deadline:
        if not _reap():
            time.sleep(0.002)
    return _exit_codes.pop(keeper, -1)


def _reap() -> bool:
    """Collect one ended child, adopted ones included; say whether there was one."""
    try:
        ended, raw = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return False
    if ended:
        _exit_codes[ended] = os.waitstatus_to_exitcode(raw)
    return ended != 0
