"""What is odd on a host that others keep busy is nobody's fault: it is tried again, and then not held against it."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from evaluating import PROBLEM, cpu_settings
from kernel_evaluator.candidate.processes import Home, Zygote
from kernel_evaluator.judging import judge
from kernel_evaluator.judging.hearing import Ruled
from kernel_evaluator.records.rows import BUSY_HOST, Status
from kernel_evaluator.stand.batches import run_batch
from kernel_evaluator.stand.set_up import set_up
from kernel_evaluator.timing.measurement import BUSY_SHARE, Measurement
from kernel_evaluator.timing.suspicions import RAN_WHILE_STOPPED

HEARING = SimpleNamespace(
    quiet=nullcontext, mark=lambda _: None, stand=SimpleNamespace(settings=SimpleNamespace(switched_off=()))
)
ODD, CALM, BUSY = ("ClocksDisagree", "apart"), BUSY_SHARE / 5, BUSY_SHARE * 5


def measured(monkeypatch, *said):
    """Measure where each try in turn gives such a suspicion, or charge, and share of waiting; the last goes on."""
    tries = [
        Measurement(calls=1, deferred_ms=odd, waited_share=share)
        if isinstance(odd, float)
        else Measurement(calls=1, suspicion=odd, waited_share=share)
        for odd, share in said
    ]
    made = []

    def timed(hearing, deck):
        made.append(tries[min(len(made), len(tries) - 1)])
        return made[-1]

    monkeypatch.setattr(judge, "_timed", timed)
    return judge._measured(HEARING, None), len(made)


def test_what_is_odd_on_a_calm_host_is_held_against_a_kernel_after_two_tries(monkeypatch):
    found, tries = measured(monkeypatch, (ODD, CALM))
    assert (found.suspicion, tries) == (ODD, 2)


def test_a_kernel_that_is_fine_once_is_not_timed_again(monkeypatch):
    assert measured(monkeypatch, (None, BUSY))[1] == 1
    found, tries = measured(monkeypatch, (ODD, BUSY), (ODD, BUSY), (ODD, BUSY), (None, BUSY))
    assert (found.suspicion, tries) == (None, 4)


def test_what_the_kernels_own_processes_used_is_no_busy_host(monkeypatch):
    odd = (RAN_WHILE_STOPPED, "it used processors")
    found, tries = measured(monkeypatch, (odd, BUSY))
    assert (found.suspicion, tries) == (odd, 2)


def test_work_put_off_is_charged_on_a_calm_host_alone(monkeypatch):
    found, tries = measured(monkeypatch, (0.2, CALM))
    assert (found.deferred_ms, tries) == (0.2, 1)
    found, tries = measured(monkeypatch, (0.2, BUSY), (0.2, CALM))
    assert (found.deferred_ms, tries) == (0.2, 2)
    with pytest.raises(Ruled, match="outputs came late") as ruled:
        measured(monkeypatch, (0.2, BUSY))
    assert (ruled.value.status, ruled.value.name) == (Status.INFRA_ERROR, BUSY_HOST)


def test_on_a_host_that_stays_busy_nothing_is_said_of_the_kernel(monkeypatch):
    with pytest.raises(Ruled, match="judge it again when the machine is calmer") as ruled:
        measured(monkeypatch, (ODD, BUSY))
    assert (ruled.value.status, ruled.value.name) == (Status.INFRA_ERROR, BUSY_HOST)


def test_what_the_reference_waits_is_held_against_the_time_of_all_calls_that_it_makes():
    with Zygote(Home(device="cpu", threads=1, memory_bytes=8 << 30)) as zygote:
        stand = set_up(PROBLEM, cpu_settings(), zygote.fork(confined=False), fallback=False)
        worked_s = stand.reference.worked_s
        took_ms = [run_batch(stand, stand.reference, order, 0, 60.0)[1] for order in ([0, 1], [], [1])]
        stand.close()
    assert stand.reference.worked_s - worked_s == pytest.approx(sum(took_ms) / 1e3, abs=1e-6)
    assert min(took_ms[0], took_ms[2]) > 0
