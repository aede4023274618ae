"""The processes that compile: a server with PyTorch loaded, and a confined child of it for each kernel.

The server forks a keeper for each request; the keeper forks the child, waits for it and reports. Server and
keeper are trusted and never run a kernel's code; the child is the kernel's from `confine` on, and its
outcome is a claim about itself.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import socket
import struct
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from kernel_evaluator.building.extensions import BuildSettings, install, is_compile_error
from kernel_evaluator.walls import sandbox
from kernel_evaluator.walls.hangup import ended_by_hangup

SHARE = Path("/proc/self/autogroup")
OUTCOME = "outcome.json"
SCRATCH = "scratch"
COLLECTED = "collected"

_LENGTH = struct.Struct("<Q")
_BROKEN = 70
_NICENESS = 19
_ERROR_CHARACTERS = 64 * 1024

_TRITON_S = 60.0
"""So long Triton may compile ahead: what is left is compiled where the kernel runs."""


def main() -> NoReturn:
    """Serve requests on the socket that is standard input, until it closes; arguments are processor cores."""
    with ended_by_hangup(0):
        import torch  # noqa: F401 (what every child needs, loaded once)

    with suppress(OSError):  # where sessions are weighed against each other
        SHARE.write_text(str(_NICENESS), "ascii")
    os.sched_setaffinity(0, set(map(int, sys.argv[1:])))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # keepers report for themselves
    with socket.socket(fileno=os.dup(0)) as requests:
        while True:
            header, descriptors, _, _ = socket.recv_fds(requests, _LENGTH.size, 2)
            if len(header) < _LENGTH.size:
                _end_all()
            (length,) = _LENGTH.unpack(header)
            request = json.loads(_receive(requests, length))
            if os.fork() == 0:
                requests.close()
                _exit_with(partial(_keep, request, *descriptors))
            for descriptor in descriptors:
                os.close(descriptor)


def _stand_back() -> None:
    """Let what is timed beside the builds come first; Linux allows it to everybody, some sandboxes do not."""
    try:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    except OSError:
        os.nice(_NICENESS)


def _end_all() -> NoReturn:
    """End all builds and this process at once, as whoever asked has ended.

    On a busy machine what stands back would take minutes to die. Root may raise it again.
    """
    with suppress(OSError):
        SHARE.write_text("0", "ascii")
    builds = [pid for pid in sandbox.descendants(os.getpid()) if pid != os.getpid()]
    sandbox.kill_all(builds)
    for pid in builds:
        with suppress(OSError):
            os.sched_setscheduler(pid, os.SCHED_OTHER, os.sched_param(0))
    os._exit(0)


def _receive(requests: socket.socket, length: int) -> bytes:
    parts = []
    while length and (part := requests.recv(length)):
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


def _exit_with(work: Callable[[], int]) -> NoReturn:
    """End a forked process with what `work` gives, whatever happens in it."""
    code = _BROKEN
    try:
        code = work()
    except BaseException:  # noqa: BLE001 (a fork must not run on in its parent's frames)
        traceback.print_exc()
    finally:
        os._exit(code)


def _keep(request: dict[str, Any], log: int, report: int) -> int:
    """Run one build in a child, and report its process first, its end and its CPU seconds after."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    sandbox.die_with_parent()
    os.setpgid(0, 0)  # a session for each would weigh as much as all others together
    null = os.open(os.devnull, os.O_RDONLY)
    for descriptor, target in ((null, 0), (log, 1), (log, 2)):
        os.dup2(descriptor, target)
    sandbox.become_subreaper()
    own_namespace = sandbox.enter_pid_namespace()
    os.write(report, json.dumps({"keeper": os.getpid()}).encode() + b"\n")
    child = os.fork()
    if child == 0:
        for descriptor in (null, log, report):
            os.close(descriptor)
        _exit_with(partial(_confined, request))
    _, status, usage = os.wait4(child, 0)
    if not own_namespace:
        sandbox.kill_all(pid for pid in sandbox.descendants(os.getpid()) if pid != os.getpid())
    end = {"exit_code": os.waitstatus_to_exitcode(status), "cpu_seconds": usage.ru_utime + usage.ru_stime}
    os.write(report, json.dumps(end).encode() + b"\n")
    return 0


def _confined(request: dict[str, Any]) -> int:
    _stand_back()
    work = Path(request["work"])
    sandbox.confine(
        sandbox.Cell(
            uid=request["uid"],
            limits=sandbox.Limits(file_bytes=request["file_bytes"], scratch_bytes=request["scratch_bytes"]),
            readable=[Path(path) for path in request["readable"]],
            writable=[work],
            environment=request["environment"],
            stands_back=True,
        )
    )
    outcome = _build(request, work)
    (work / OUTCOME).write_text(json.dumps(outcome), "utf-8")
    sys.stdout.flush()
    sys.stderr.flush()
    return 0


def _build(request: dict[str, Any], work: Path) -> dict[str, Any]:
    """Execute the kernel's source, and where it builds later also make and call its model, on no data."""
    from kernel_evaluator.building import no_data, triton_ahead
    from kernel_evaluator.problems.inputs import PRECISIONS

    if request["capability"]:
        no_data.pretend_gpu(tuple(request["capability"]))
    settings = BuildSettings(
        collect=work / COLLECTED, arch=request["arch"], slim_headers=request["slim_headers"]
    )
    headers = install(None, work / SCRATCH, settings)
    problems = [request["problem"]] if request["problem"] else []
    try:
        if request["has_triton"]:
            problems += _other_problems(request["problem"], request["kernel_sha256"])
            with suppress(ImportError):  # without Triton there may be an extension to build
                triton_ahead.compile_instead_of_launching(
                    work / triton_ahead.FOLDER, tuple(request["capability"])
                )
            _end_after(_TRITON_S)
        module = _execute(request["source"], Path.cwd() / "kernel_0.py")
        for problem in problems:
            no_data.call(module.ModelNew, problem, PRECISIONS[request["precision"]])
    except BaseException as error:  # noqa: BLE001 (whatever the kernel raises, exits included, is its outcome)
        compile_error = is_compile_error(error)
        text = str(error) if compile_error else traceback.format_exc()
        return {"error": text[-_ERROR_CHARACTERS:], "compile_error": compile_error, "headers": headers}
    return {"error": "", "compile_error": False, "headers": headers}


def _end_after(seconds: float) -> None:
    """Have what this process does end by an error after so long."""

    def end(*_: object) -> NoReturn:
        raise TimeoutError(f"not done within {seconds:.0f} s")

    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)


def _other_problems(source: str, kernel_sha256: str) -> list[str]:
    """The problem at the sizes that a kernel is tried at as well, if it is correct: one or none."""
    from kernel_evaluator.problems.other_shapes import other_shapes
    from kernel_evaluator.problems.problem_set import Problem

    problem = Problem(level=1, problem_id=1, name="", source=source)
    others = other_shapes(problem, kernel_sha256)
    return [others[1].sized_source] if others else []


def _execute(source: str, path: Path) -> ModuleType:
    path.write_text(source, "utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot load {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main()
