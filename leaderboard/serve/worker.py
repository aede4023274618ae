"""The process that judges for the server: requests come as lines on standard input, verdicts go out as lines.

It lives for as long as requests come, so that its devices stay ready. The first line says by which settings
it judges, and on which engine; each line holds kernels. It ends with its input, or is killed.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, TextIO

from kernel_evaluator.engines.wire import Answer, pack_answer, read_request
from kernel_evaluator.problems.jobs import Job, Settings, Verdict
from kernel_evaluator.walls import sandbox

from leaderboard.stages.uses import too_deep


class Streaming(Protocol):
    """An engine that takes jobs as they come."""

    def run(self, jobs: Iterable[Job], settings: Settings) -> Iterator[Verdict]:
        """Judge them."""
        ...


MakeEngine = Callable[[dict[str, Any], str], Streaming]


def engine_of(request: dict[str, Any], device: str) -> Streaming:
    """Make the engine that a request names: this machine's, or a cluster's."""
    if request["engine"] == "ray":
        from kernel_evaluator.engines.ray.engine import open_engine

        return open_engine(device)[0]
    from kernel_evaluator.engines.local import LocalEngine  # loads what judging needs

    return LocalEngine(gpus=request["gpus"])


def main(make_engine: MakeEngine = engine_of) -> None:
    """Judge what comes; whatever libraries print goes to standard error, so that only verdicts go out.

    Dies with the thread that started it, and all that judges with it.
    """
    sandbox.die_with_parent()
    with os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8") as out:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        first = json.loads(sys.stdin.readline())
        jobs, settings = read_request(first["batch"])
        lock = threading.Lock()  # an engine may take jobs in a thread of its own

        def tell(verdict: Verdict) -> None:
            with lock:
                out.write(pack_answer(Answer(verdicts=(verdict,))) + "\n")
                out.flush()

        for verdict in make_engine(first, settings.device).run(_stream(jobs, sys.stdin, tell), settings):
            tell(verdict)


def _stream(jobs: list[Job], requests: TextIO, tell: Callable[[Verdict], None]) -> Iterator[Job]:
    """Give the jobs that an engine can read, and tell of the others what it could not: they would end it."""
    while True:
        for job in jobs:
            if verdict := too_deep(job):
                tell(verdict)
            else:
                yield job
        line = requests.readline()
        if not line:
            return
        jobs = read_request(json.loads(line)["batch"])[0]


if __name__ == "__main__":
    main()
