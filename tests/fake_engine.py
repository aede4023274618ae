"""An engine that judges by the first line of a kernel, so that stages can be tested without running kernels.

`# speedup 2.0` is correct and timed, `# speedup 2.0 1.5` 1.5 times as fast when it is judged a second time;
`# status mismatch` ends so, `# speedup 2.0 mismatch` the second time; anything else is correct at 1.0. What a census
is asked of is `custom`.
Run as a program it is `kbl` with this engine added as `fake`; FAKE_DELAY_S makes each verdict take its time.
"""

import os
import re
import time
from dataclasses import replace
from functools import cache

from kernel_evaluator.problems.jobs import Settings, Verdict
from kernel_evaluator.records.rows import Environment, Failure, Row, Status
from kernel_evaluator.records.version import evaluator_sha256
from kernel_evaluator.timing import suspicions
from kernel_evaluator.timing.measurement import UNLIKE_SHARE, Measurement
from kernel_evaluator.timing.pairing import Look, Round, noted

from leaderboard.stages import engines
from leaderboard.stages.confirm import confirmed, needs_second, second_settings

GPU = Environment(device="NVIDIA H200", gpu="H200", driver="570.1", cuda="13.0", torch="2.13.0")


class FakeEngine:
    def __init__(self, environment=GPU, delay_s=0.0, evaluator=None):
        self.environment = environment
        self.delay_s = delay_s
        self.evaluator = evaluator or evaluator_sha256()
        self.judged = []

    def run(self, jobs, settings):
        for job in jobs:
            time.sleep(self.delay_s)
            self.judged.append(str(job.key))
            labels = ("custom",) if settings.profile_launches else ()
            yield Verdict(
                row=replace(judge(job, self.evaluator, settings.trials), labels=labels),
                environment=self.environment,
            )


def rows_of(jobs):
    """The rows that jobs get; what counts is judged once."""
    return [verdict.row for verdict in FakeEngine().run(jobs, Settings())]


def rows_found_twice(jobs, environment=GPU):
    """The rows of an evaluation that was finished: what counts was judged a second time."""
    first = [verdict.row for verdict in FakeEngine(environment).run(jobs, Settings())]
    second = [verdict.row for verdict in FakeEngine(environment).run(jobs, second_settings(Settings()))]
    pairs = zip(first, second, strict=True)
    return [confirmed(one, other) if needs_second(one) else one for one, other in pairs]


def judge(job, evaluator, trials=5):
    first = job.source.partition("\n")[0]
    digests = {
        "key": job.key,
        "kernel_sha256": job.kernel_sha256,
        "problem_sha256": job.problem.sha256,
        "evaluator_sha256": evaluator,
        "finished_at": "2026-01-01T00:00:00Z",
        "gpu_seconds": 1.0,
        "cpu_seconds": 2.0,
    }
    if match := re.match(
        r"# status (\w+)" if trials > 1 else r"# (?:status|speedup [\d.]+) ([a-z]\w+)", first
    ):
        failure = Failure(name="AssertionError", message="differs at [0, 0]")
        evidence = {"index": [0, 0], "expected": 1.0, "got": 2.0}
        return Row(**digests, status=Status(match[1]), trials_asked=5, failure=failure, evidence=evidence)
    match = re.match(r"# speedup ([\d.]+) ?([\d.]+)?", first)
    speedups = [float(each) for each in match.groups() if each] if match else [1.0]
    return timed_row(digests, speedups[0 if trials > 1 else -1], alone_ms=1.0 if trials > 1 else 1.001)


def timed_row(digests, speedup, alone_ms=1.0):
    """A correct row whose interval is two per cent wide to either side, with the rounds that say so."""
    found, fields = timed(speedup, alone_ms)
    return Row(
        **digests,
        status=Status.CORRECT,
        trials_passed=5,
        trials_asked=5,
        rounds=found.to_json(),
        checks={"panel_passed": 9, "panel_asked": 9, "looks_are_relative": True, "sharp_share": 0.94},
        **fields,
    )


@cache
def timed(speedup, alone_ms):
    """What was measured at that speedup, and a row's fields of it: thousands of rows have the same."""
    found = measured(speedup)
    found.alone_ms = alone_ms
    suspicions.judge_all(found, "cuda")
    return found, found.fields()


def measured(speedup):
    low, high = 0.98 / (1 - UNLIKE_SHARE), 1.02 / (1 + UNLIKE_SHARE)
    look = Look(candidate_ms=[0.2], reference_ms=[0.2], counts=[1])
    rounds = [
        Round(
            reference_ms=noted(share),
            candidate_ms=1.0 / speedup,
            candidate_wall_ms=1.0 / speedup + 0.1,
            overhead_ms=0.1,
            reference_first=at % 2 == 0,
            look=look,
        )
        for at, share in enumerate([low, 1, 1, 1, 1, high])
    ]
    return Measurement(
        calls=1,
        reference_calls=1,
        rounds=rounds,
        alone_ms=1.0,
        alone_overheads_ms=(0.1, 0.1),
        paused_ms=(10.0, 0.0),
    )


def place(*_):
    """Where the engine runs, as options of `kbl` name it."""
    return engines.Place(engine=FakeEngine(delay_s=float(os.environ.get("FAKE_DELAY_S", "0"))), gpu="H200")


if __name__ == "__main__":
    from leaderboard.cli import run

    engines.ENGINES["fake"] = place
    run()
