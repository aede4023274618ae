"""An oracle as a process: jobs come as JSON lines on standard input, rows go as lines to standard output.

Loads torch only once the zygote has been started, so that both load it at the same time.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import queue
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from kernel_evaluator.candidate.processes import Home, Zygote
from kernel_evaluator.machine import processors
from kernel_evaluator.problems.jobs import STANDING_BY, Job, Settings
from kernel_evaluator.problems.problem_set import Problem
from kernel_evaluator.records.keys import KernelKey
from kernel_evaluator.records.rows import Environment
from kernel_evaluator.walls.hangup import ended_by_hangup


def job_to_json(job: Job, cache: Path | None) -> dict[str, Any]:
    """A job as it travels to the oracle."""
    problem = {**{k: getattr(job.problem, k) for k in ("level", "problem_id", "name", "source")}}
    problem["overrides"] = dict(job.problem.overrides)
    return {
        "key": str(job.key),
        "source": job.source,
        "problem": problem,
        "cache": str(cache) if cache else None,
    }


def job_from_json(data: dict[str, Any]) -> Job:
    """Read a job."""
    return Job(key=KernelKey.parse(data["key"]), source=data["source"], problem=Problem(**data["problem"]))


def environment_from_json(data: dict[str, Any]) -> Environment:
    """Read an environment as an oracle wrote it."""
    return Environment(**{**data, "isolation": tuple(data["isolation"])})


def serve(requests: IO[str], answers: IO[str]) -> None:
    """Judge jobs until the input ends. The first line holds the settings; each answer is a line of JSON."""
    said = json.loads(requests.readline())
    settings = Settings(**{**said, "switched_off": tuple(said["switched_off"])})
    threads = processors.for_models() if settings.device == "cpu" else 4
    home = Home(device=settings.device, threads=threads, memory_bytes=int(settings.memory_gb * 2**30))
    with Zygote(home) as zygote:
        with ended_by_hangup(requests.fileno()):
            import torch

            from kernel_evaluator.machine.environment import describe_device
            from kernel_evaluator.oracle import Needs, Oracle

        if settings.device == "cuda":
            torch.cuda.init()  # type: ignore[no-untyped-call]
        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
        gc.freeze()  # a full collection inside a batch would be an outlier
        oracle = Oracle(settings, zygote)

        def needs(said: dict[str, Any]) -> Needs:
            return Needs.of(said["source"], Path(said["cache"]) if said["cache"] else None)

        inbox = _Inbox(requests, zygote.abandon)
        while (data := inbox.take()) is not None:
            job = job_from_json(data)
            upcoming = [needs(following) for following in inbox.peek(STANDING_BY)]
            row = oracle.judge(job, needs(data), upcoming)
            environment = describe_device(settings.device, oracle.walls, shared=not oracle.fallback)
            inbox.done()
            answers.write(json.dumps({"row": row.to_json(), "environment": asdict(environment)}) + "\n")
            answers.flush()
        oracle.close()


class _Inbox:
    """Jobs as they arrive, so that the next ones are known while the current one is judged.

    Who gives them takes all answers before the input ends. Where it ends earlier who gave them is gone.
    """

    def __init__(self, requests: IO[str], abandon: Callable[[], None]) -> None:
        self._queue: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._arrived = self._answered = 0
        self._abandon = abandon
        threading.Thread(target=self._read, args=(requests,), daemon=True).start()

    def take(self) -> dict[str, Any] | None:
        """Wait for the next job; None at the end."""
        return self._queue.get()

    def done(self) -> None:
        """Note that a job has its answer."""
        self._answered += 1

    def peek(self, count: int) -> list[dict[str, Any]]:
        """The jobs after, so many at most, as far as they have arrived."""
        with self._queue.mutex:
            return [data for data in list(self._queue.queue)[:count] if data is not None]

    def _read(self, requests: IO[str]) -> None:
        for line in requests:
            self._arrived += 1
            self._queue.put(json.loads(line))
        if self._arrived > self._answered:
            self._abandon()
            os._exit(1)
        self._queue.put(None)


def main() -> None:
    """Serve on standard input and output; anything else that is printed goes to standard error."""
    level = os.environ.get("KERNELBENCH_LOG", "WARNING")
    logging.basicConfig(level=level, format="%(relativeCreated)d ms %(levelname)s:%(name)s:%(message)s")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    serve(sys.stdin, answers)
    # What is frozen is not freed, of which libraries would write a page; to free it takes half a second.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
