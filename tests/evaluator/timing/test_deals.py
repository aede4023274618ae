"""How deals go, by the real rules on a simulated device: who gets how many calls, in which rounds, where in memory."""

import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
from kernel_evaluator.timing import timed_outputs
from kernel_evaluator.timing.pairing import Part

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "benchmarks"))

import selection


def rounds_of(policy):
    """The rounds of a measurement in which 8 calls of the reference's, of 1 ms each, are a deal."""
    return selection.evaluate(policy, 5)[1]


def uneven(moment):
    """Fast in half of the batches by chance, so that the interval stays wide and timing goes on."""
    return moment.chance < 0.5


def test_sides_take_turns_seldom_at_first_and_more_often_later():
    rounds = rounds_of(uneven)
    assert {r.calls for r in rounds[:6]} == {4}
    assert {r.calls for r in rounds[-20:]} == {1, 2}


def test_memory_is_taken_anew_every_second_deal():
    counts = Counter(r.placing for r in rounds_of(uneven))
    assert [counts[at] for at in range(1, 7)] == [2, 2, 2, 2, 12, 12], (
        "first each of two rounds, then two of six"
    )


def test_at_half_of_the_later_rounds_outputs_are_looked_at():
    late = rounds_of(uneven)[20:]
    assert 0.3 < sum(r.look is not None for r in late) / len(late) < 0.7


def test_who_is_four_times_as_fast_gets_four_times_the_calls():
    assert max(r.calls for r in rounds_of(lambda m: True)) == 16
    assert max(r.calls for r in rounds_of(lambda m: False)) == 4


@pytest.mark.parametrize("is_fast", [False, True])
def test_what_the_reference_waited_is_a_share_of_the_calls_that_it_made(is_fast):
    """Beside a kernel four times as fast it makes a part of the kernel's calls."""
    found, _ = selection.measured(lambda m: is_fast, 5, waits=0.2)
    assert found.waited_share == pytest.approx(0.2, rel=1e-3)
    assert found.is_busy


@pytest.mark.parametrize(
    ("calls", "reference_calls", "claimed_ms", "looked_at"),
    [
        pytest.param(25, 25, 10.0, 5, id="a fifth"),
        pytest.param(10, 10, 10.0, 4, id="of few at least four"),
        pytest.param(100, 100, 10.0, 8, id="of many at most eight"),
        pytest.param(100, 50, 10.0, 2, id="two where each may cost a call of the reference"),
        pytest.param(64, 64, 0.5, 15, id="of brief calls so many that work put off shows"),
        pytest.param(64, 64, 0.05, 16, id="and no more than are delivered at once"),
    ],
)
def test_some_outputs_of_a_round_are_looked_at(calls, reference_calls, claimed_ms, looked_at):
    stand = SimpleNamespace(
        settings=SimpleNamespace(switched_off=()),
        outputs=SimpleNamespace(nbytes=1 << 20, count=16),
        calls=calls,
    )
    part = Part(list(range(calls)), list(range(reference_calls)))
    drawn = [(at, "signed") for at in range(calls)]
    deliveries = timed_outputs.choose(stand, part, drawn, claimed_ms, unseen=())
    assert sum(map(len, deliveries)) == looked_at
