"""The process that judges one batch for the server: a request on standard input, one verdict a line out.

A process a batch keeps the server's memory flat, and lets a batch be cancelled by killing its process group.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence

from kernelbench.engines.wire import Answer, pack_answer, read_request
from kernelbench.jobs import Engine

MakeEngine = Callable[[Sequence[int] | None], Engine]


def local_engine(gpus: Sequence[int] | None) -> Engine:
    """Make the engine of this machine."""
    from kernelbench.engines.local import LocalEngine  # loads what judging needs

    return LocalEngine(gpus=gpus)


def main(make_engine: MakeEngine = local_engine) -> None:
    """Judge the batch; whatever libraries print goes to standard error, so that only verdicts go out."""
    with os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8") as out:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        request = json.loads(sys.stdin.read())
        jobs, settings = read_request(request["batch"])
        for verdict in make_engine(request["gpus"]).run(jobs, settings):
            out.write(pack_answer(Answer(verdicts=(verdict,))) + "\n")
            out.flush()


if __name__ == "__main__":
    main()
