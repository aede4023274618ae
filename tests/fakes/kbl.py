"""`kbl` as the tests' runner starts it: the real command line, with two more engines in the table.

The engine `steady` judges by a kernel's first line (see `fake_engine`) as if on the CPU. STEADY_DIES_AFTER makes
the whole process die after that many verdicts, as a runner that is taken away does. STEADY_VERDICT is what every
kernel gets, whatever it says. STEADY_IS_PAID lets the engine send bills, at the prices of the rented GPU. The
engine `fake` is that of `fake_engine`.

With `--serve SOCKET` it loads everything once and forks for each command that `fakes.kbl_client` sends: the same
code in a process of its own, without the second that importing takes.
"""

from __future__ import annotations

import gc
import marshal
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path

import numpy as np
import typer.main
from fake_engine import FakeEngine, place
from kernel_evaluator import scores
from kernel_evaluator.engines import epoch
from kernel_evaluator.problems.jobs import Verdict
from kernel_evaluator.records.rows import Environment
from kernel_evaluator.records.version import evaluator_sha256

from leaderboard.cli import app, run
from leaderboard.files import store
from leaderboard.stages import boards, engines

CPU = Environment(device="a CPU", gpu="CPU")
LOADED_AT_LAST = (
    *(f"leaderboard.github.{verb}" for verb in ("check", "evaluation", "gate", "publish", "results", "take")),
    *("github", "numpy.ma", "numpy.random", "typer._adapters"),
)
"""What a command would load only once it is under way."""


class SteadyEngine(FakeEngine):
    """The engine of the stages' tests, on the CPU's board."""

    def __init__(self) -> None:
        super().__init__(environment=CPU)

    def run(self, jobs, settings) -> Iterator[Verdict]:
        lives_for = int(os.environ.get("STEADY_DIES_AFTER", "1000000"))
        said = os.environ.get("STEADY_VERDICT")
        told = [replace(job, source=f"# status {said}") for job in jobs] if said else jobs
        kernels = {job.key: job.kernel_sha256 for job in jobs}
        for given, verdict in enumerate(super().run(told, settings)):
            if given == lives_for:
                _await_rows(given)
                os._exit(137)
            taken_s = float(os.environ.get("STEADY_CPU_SECONDS", verdict.row.cpu_seconds))
            row = replace(verdict.row, cpu_seconds=taken_s, kernel_sha256=kernels[verdict.row.key])
            ended = os.environ.get("STEADY_FINISHED_AT", row.finished_at)
            yield replace(verdict, row=replace(row, finished_at=ended))


def _await_rows(count: int) -> None:
    """Wait until the work file has so many rows: each comes to disk a moment after its verdict."""
    work = Path(os.environ["RUNNER_TEMP"], "result")
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if any(len(store.read_result(path).rows) >= count for path in work.glob("*/*.json")):
            return
        time.sleep(0.02)


def serve(path: str) -> None:
    """Fork for each command that comes, until the socket's file is gone."""
    for name in LOADED_AT_LAST:
        import_module(name)
    evaluator_sha256()  # once for all, as in a checkout that nobody edits
    boards._read = cache(boards._read)
    boards.read_certificates()
    drawn = {"": np.zeros(len(boards.read_ranked()))}
    scores.geomean_intervals(drawn)  # every publication resamples by the same draws
    typer.main.get_command = cache(typer.main.get_command)
    typer.main.get_command(app)
    gc.disable()  # a command lives for a second: looking through its memory, and copying it so, takes longer
    server = socket.socket(socket.AF_UNIX)
    server.bind(f"{path}.new")
    server.listen(64)
    Path(f"{path}.new").rename(path)  # where it can be seen, somebody listens already
    while True:
        connection, _ = server.accept()
        _run_forked(connection, server)


def _run_forked(connection: socket.socket, server: socket.socket) -> None:
    message, descriptors, *_ = socket.recv_fds(connection, 1 << 20, 2)
    asked = marshal.loads(message)
    child = os.fork()
    if child == 0:
        server.close()
        for target, descriptor in zip((1, 2), descriptors, strict=True):
            os.dup2(descriptor, target)
        sys.stdout = os.fdopen(1, "w", closefd=False)
        sys.stderr = os.fdopen(2, "w", 1, errors="backslashreplace", closefd=False)
        os.chdir(asked["folder"])
        os.environ.clear()
        os.environ.update(asked["environment"])
        os._exit(_code_of(asked["arguments"]))
    for descriptor in descriptors:
        os.close(descriptor)
    threading.Thread(target=_answer, args=(connection, child), daemon=True).start()


def _set_prices() -> None:
    if os.environ.get("STEADY_IS_PAID"):
        epoch._PRICES["steady", "CPU"] = epoch._PRICES["modal", "H100"]


def _code_of(arguments: list[str]) -> int:
    _set_prices()
    try:
        sys.argv = ["kbl", *arguments]
        run()
    except SystemExit as ended:
        code = ended.code
        return code if isinstance(code, int) else int(code is not None)
    except BaseException:  # noqa: BLE001 - a process of its own would print it and end too
        import traceback

        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


def _answer(connection: socket.socket, child: int) -> None:
    _, status = os.waitpid(child, 0)
    connection.sendall(bytes([os.waitstatus_to_exitcode(status) & 255]))
    connection.close()


engines.ENGINES["steady"] = lambda *_: engines.Place(engine=SteadyEngine(), gpu="CPU")
engines.ENGINES["fake"] = place
if len(sys.argv) == 3 and sys.argv[1] == "--serve":
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    Path(sys.argv[2]).unlink(missing_ok=True)
    serve(sys.argv[2])
else:
    sys.argv[0] = "kbl"
    _set_prices()
    run()
