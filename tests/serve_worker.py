"""The server's worker with the fake engine: `# sleep 3` in a kernel takes that long, `# die` kills the process.

`# until PATH` waits for a file, but no longer than a minute, so that a test which would never make it fails.
`# writes WORD` has it written to standard error. A verdict has the trials that were asked for. What `# half`
fails with, UTF-8 cannot hold; `# long name` fails with an error of a very long name.
"""

import os
import re
import sys
import time
from dataclasses import replace
from pathlib import Path

from fake_engine import FakeEngine
from kernel_evaluator.records.rows import Failure

from leaderboard.serve.worker import main


class MoodyEngine(FakeEngine):
    def run(self, jobs, settings):
        for job in jobs:
            if "# die" in job.source:
                os._exit(9)
            if match := re.search(r"# sleep ([\d.]+)", job.source):
                time.sleep(float(match[1]))
            if match := re.search(r"# until (\S+)", job.source):
                wait_for(Path(match[1]))
            if match := re.search(r"# writes (\w+)", job.source):
                print(match[1], file=sys.stderr, flush=True)
            for verdict in super().run([job], settings):
                row = replace(verdict.row, trials_asked=settings.trials)
                if "# half" in job.source:
                    row = replace(row, failure=Failure(name="RuntimeError", message="half \ud800 of a pair"))
                if "# long name" in job.source:
                    row = replace(row, failure=Failure(name="E" * 400_000, message="long"))
                yield replace(verdict, row=row)


def wait_for(path):
    until = time.monotonic() + 60
    while not path.exists() and time.monotonic() < until:
        time.sleep(0.01)


if __name__ == "__main__":
    main(lambda request, device: MoodyEngine())
