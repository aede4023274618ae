"""The server's worker with the fake engine: `# sleep 3` in a kernel takes that long, `# die` kills the process.

A verdict has the trials that were asked for. What `# half` fails with, UTF-8 cannot hold; `# long name` fails
with an error of a very long name.
"""

import os
import re
import time
from dataclasses import replace

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
            for verdict in super().run([job], settings):
                row = replace(verdict.row, trials_asked=settings.trials)
                if "# half" in job.source:
                    row = replace(row, failure=Failure(name="RuntimeError", message="half \ud800 of a pair"))
                if "# long name" in job.source:
                    row = replace(row, failure=Failure(name="E" * 400_000, message="long"))
                yield replace(verdict, row=row)


if __name__ == "__main__":
    main(lambda request, device: MoodyEngine())
