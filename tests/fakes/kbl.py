"""`kbl` as the tests' runner starts it: the real command line, with one more engine in the table.

The engine `steady` judges by a kernel's first line (see `fake_engine`) as if on the CPU. STEADY_DIES_AFTER makes
the whole process die after that many verdicts, as a runner that is taken away does.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

from fake_engine import FakeEngine
from kernelbench.jobs import Verdict
from kernelbench.rows import Environment

from leaderboard import evaluate
from leaderboard.cli import app

CPU = Environment(device="a CPU", gpu="CPU")


class SteadyEngine(FakeEngine):
    """The engine of the stages' tests, on the CPU's board."""

    def __init__(self) -> None:
        super().__init__(environment=CPU)

    def run(self, jobs, settings) -> Iterator[Verdict]:
        left = int(os.environ.get("STEADY_DIES_AFTER", "1000000"))
        for verdict in super().run(jobs, settings):
            if left == 0:
                sys.stdout.flush()
                os._exit(137)
            left -= 1
            yield verdict


evaluate.ENGINES["steady"] = lambda *_: evaluate.Place(engine=SteadyEngine(), gpu="CPU")
sys.argv[0] = "kbl"
app()
