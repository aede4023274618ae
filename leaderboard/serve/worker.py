"""The process that judges one batch for the server: a request on standard input, one verdict a line out.

A process a batch keeps the server's memory flat, and lets a batch be cancelled by killing its process group.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence

from kernel_evaluator.engines.wire import Answer, pack_answer, read_request
from kernel_evaluator.problems.jobs import Engine
from kernel_evaluator.walls import sandbox

MakeEngine = Callable[[Sequence[int] | None], Engine]


def local_engine(gpus: Sequence[int] | None) -> Engine:
    """Make the engine of this machine."""
    from kernel_evaluator.engines.local import LocalEngine  # loads what judging needs

    return LocalEngine(gpus=gpus)


def main(make_engine: MakeEngine = local_engine) -> None:
    """Judge the batch; whatever libraries print goes to standard error, so that only verdicts go out.

    Dies with the thread that started it, and all that judges with it.
    """
    sandbox.die_with_parent()
    with os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8") as out:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        request = json.loads(sys.stdin.read())
        jobs, settings = read_request(request["batch"])
        for verdict in make_engine(request["gpus"]).run(jobs, settings):
            out.write(pack_answer(Answer(verdicts=(verdict,))) + "\n")
            out.flush()


if __name__ == "__main__":
    main()
