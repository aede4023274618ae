"""What the host may be to blame for is no verdict the first time: the kernel is judged once more, after all others."""

import threading
from dataclasses import asdict, replace

import pytest
from evaluating import RIGHT, cpu_settings, jobs_of
from kernel_evaluator.engines import local
from kernel_evaluator.problems.jobs import unmeasured_row
from kernel_evaluator.records.keys import KernelKey
from kernel_evaluator.records.rows import Environment, Failure, Status


def judged(monkeypatch, *failures):
    """Statuses by sample in the order of verdicts, where the first kernel meets these failures, time after time."""
    jobs = jobs_of(RIGHT, f"{RIGHT}\n# another")
    left = list(failures)
    keys = []
    all_built = threading.Event()

    def stream():
        yield from jobs
        all_built.set()

    class Oracle:
        def __init__(self, *_):
            all_built.wait()  # what hangs on time is put off for builds beside, too

        def send(self, job):
            keys.append(KernelKey.parse(job["key"]))

        def receive(self, _timeout_s):
            key = keys.pop(0)
            wrong = Failure(name="WrongOutput", message="")
            row = unmeasured_row(jobs[key.sample], Status.MISMATCH, wrong)
            if key.sample == 0 and left:
                odd = Failure(name=left.pop(0), message="")
                row = replace(row, status=Status.QUARANTINED, failure=odd, evidence={"violation": odd.name})
            return {"row": row.to_json(), "environment": asdict(Environment(device="", gpu=""))}

        def kill(self):
            pass

        def close(self, *, kill=False):
            pass

    monkeypatch.setattr(local, "OracleProcess", Oracle)
    verdicts = list(local.LocalEngine().run(stream(), cpu_settings()))
    assert left == []
    return [(verdict.row.key.sample, verdict.row.failure.name) for verdict in verdicts]


@pytest.mark.parametrize("name", local.HOSTS_FAULTS)
def test_a_kernel_that_other_guests_may_have_slowed_is_judged_once_more_at_the_end(monkeypatch, name):
    assert judged(monkeypatch, name) == [(1, "WrongOutput"), (0, "WrongOutput")]
    assert judged(monkeypatch, name, name) == [(1, "WrongOutput"), (0, name)]


def test_what_no_host_brings_about_is_a_verdict_at_once(monkeypatch):
    assert judged(monkeypatch, "RanWhileStopped") == [(0, "RanWhileStopped"), (1, "WrongOutput")]
