"""Kernels that are slower than the reference: called no more often than their verdict needs."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from evaluating import PROBLEM, is_without_verdict, jobs_of, judge, kernel
from kernel_evaluator.judging.trials import SLOW_TRIALS
from kernel_evaluator.stand import stand as stands
from kernel_evaluator.timing import pairing, stopping
from kernel_evaluator.timing.measurement import Measurement
from kernel_evaluator.timing.pairing import Round

pytestmark = pytest.mark.timeout(900)  # a busy machine judges the kernels of a whole file in minutes

TOO_MANY = "one call too many"
COUNTED = "class Calls:\n    made = 0\n"
FEW_CALLS = kernel(
    "Calls.made += 1",
    f"assert Calls.made <= {SLOW_TRIALS + pairing.MIN_ROUNDS}, '{TOO_MANY}'",
    f"time.sleep({1.2 * stopping.SLOW_MS / 1e3})",
    head=COUNTED,
)
SLOWER = kernel("time.sleep(0.03)")
SLOW = f"time.sleep({1.2 * stopping.SLOW_MS / 1e3})"
SLOW_WITHOUT_WEIGHTS = kernel(SLOW, "return F.layer_norm(x.clamp(min=0), (64,))")
SLOW_THEN_ZEROS = kernel("Calls.made += 1", SLOW, "if Calls.made > 3: return x * 0", head=COUNTED)
SLOW_IN_TRIALS = kernel("Calls.made += 1", "time.sleep(0.4 if Calls.made <= 3 else 0)", head=COUNTED)
WRONG = kernel(
    "Calls.made += 1", "assert Calls.made == 1, 'called again'", "return self.right(x) + 1", head=COUNTED
)


def is_without_verdict_or_timed_again(row):
    """On a busy host timing is tried again, which takes calls beyond the eight."""
    return is_without_verdict(row) or (row.failure is not None and TOO_MANY in row.failure.message)


@pytest.fixture(scope="module")
def rows(measured):
    names = ("few calls", "slower", "slow in trials", "wrong", "no weights", "zeros later", "right")
    sources = (
        FEW_CALLS,
        SLOWER,
        SLOW_IN_TRIALS,
        WRONG,
        SLOW_WITHOUT_WEIGHTS,
        SLOW_THEN_ZEROS,
        kernel("pass"),
    )
    found = measured(jobs_of(*sources), is_without_verdict_or_timed_again)
    return {name: found[sample] for sample, name in enumerate(names)}


def test_a_kernel_whose_calls_take_long_is_called_eight_times_in_all(rows):
    row = rows["few calls"]
    assert (row.status, row.trials_passed, row.trials_asked, row.runtime_ms.n) == ("correct", 5, 5, 6)
    assert all(look is not None for look in row.rounds["looks"])
    assert row.elsewhere is None


def test_a_reference_whose_first_call_takes_long_costs_no_more_calls_of_a_slow_kernel(measured):
    """As where it prepares its weights when it first meets them."""
    prepares = "if self.norm.weight.sum() != getattr(self, 'known', None): time.sleep(0.1)"
    known = "self.known = self.norm.weight.sum().clone()"
    forward = f"{prepares}\n        {known}\n        return self.norm"
    source = PROBLEM.source.replace("import torch\n", "import time\nimport torch\n", 1)
    problem = replace(PROBLEM, source=source.replace("return self.norm", forward))
    row = measured(jobs_of(FEW_CALLS, problem=problem), is_without_verdict_or_timed_again)[0]
    assert (row.status, row.runtime_ms.n) == ("correct", 6)
    assert max(row.rounds["reference_ms"]) < 50


def test_a_much_slower_kernel_has_fewer_calls_a_deal_than_the_reference_fills(rows):
    assert rows["slower"].status == "correct"
    assert rows["slower"].rounds["calls_a_deal"] < rows["right"].rounds["calls_a_deal"]
    assert rows["slower"].rounds["reference_calls_a_deal"] == rows["slower"].rounds["calls_a_deal"]


def test_a_kernel_that_is_slow_in_trials_alone_is_not_timed_by_few_calls(rows):
    row = rows["slow in trials"]
    assert row.status == "correct"
    assert row.elsewhere
    # Not as many as another kernel's: how many fit is found by timing, and a busy machine moves it.
    assert row.rounds["reference_calls_a_deal"] > rows["slower"].rounds["reference_calls_a_deal"]


def test_a_slow_kernel_that_is_wrong_with_other_weights_alone_is_fragile(rows):
    row = rows["no weights"]
    assert (row.status, row.failure.name) == ("fragile", "WrongOutput")
    assert row.evidence["counter_example"]["weights"] != "plain"


def test_a_slow_kernel_that_answers_otherwise_once_it_is_timed_is_rejected(rows):
    row = rows["zeros later"]
    assert (row.status, row.failure.name) == ("rejected", "WrongTimedOutput")
    assert row.evidence["asked_again"] == "wrong"


def test_a_kernel_that_is_slow_in_its_only_trial_is_tried_with_other_weights_before_it_is_timed():
    """As where a speedup is looked for a second time: a first call may compile."""
    compiles = kernel("Calls.made += 1", "if Calls.made == 2: raise OSError", SLOW, head=COUNTED)
    row = judge(jobs_of(compiles), trials=1)[0]
    assert (row.failure.name, row.trials_passed) == ("OSError", 1)
    assert ", in call\n" in row.failure.message  # and not in a batch


def test_a_wrong_kernel_costs_one_trial(rows):
    row = rows["wrong"]
    assert (row.status, row.failure.name, row.trials_passed, row.rounds) == (
        "mismatch",
        "WrongOutput",
        0,
        None,
    )


@pytest.mark.parametrize(
    ("speedup", "half_width"),
    [
        (1.5, stopping.HALF_WIDTH),
        (0.95, stopping.HALF_WIDTH),
        (0.5, stopping.SLOWER_HALF_WIDTH),
        (0.1, stopping.MUCH_SLOWER_HALF_WIDTH),
    ],
)
def test_an_interval_is_as_narrow_as_it_matters(speedup, half_width):
    one = Round(reference_ms=speedup, candidate_ms=1.0, candidate_wall_ms=1.1, overhead_ms=0.1)
    found = Measurement(calls=8, reference_calls=8, rounds=[one] * 6)
    assert stopping.half_width(found, is_late=False) == half_width


@pytest.mark.parametrize(("free_gib", "is_ours"), [(17.9, True), (18.1, False)])
def test_to_run_out_of_less_than_should_be_left_is_no_kernels_fault(free_gib, is_ours):
    device = SimpleNamespace(give_back=lambda: None, free_bytes=lambda: free_gib * 2**30)
    stand = SimpleNamespace(device=device, _needs_bytes=10 * 2**30)
    assert bool(stands.Stand.lacks_room(stand)) == is_ours
