"""Rounds of a single call among the others: whoever does the work of many calls in one is slower there."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from kernel_evaluator.timing import pairing
from kernel_evaluator.timing.measurement import Measurement
from kernel_evaluator.timing.suspicions import judge_all

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "benchmarks"))

import selection


def rounds(reference_ms, candidate_ms, calls):
    overhead_ms = 0.5 / calls
    one = pairing.Round(
        reference_ms=reference_ms,
        candidate_ms=candidate_ms,
        candidate_wall_ms=candidate_ms + overhead_ms,
        overhead_ms=overhead_ms,
        calls=calls,
        look=pairing.Look(candidate_ms=[0.2], reference_ms=[0.2], counts=[1]),
    )
    return [replace(one, reference_first=at % 2 == 0) for at in range(8)]


def judged(among, alone, device="cuda"):
    """What is said where calls take both sides these milliseconds, among others and alone."""
    found = Measurement(calls=16, reference_calls=16, rounds=rounds(*among, 8), lone=rounds(*alone, 1))
    judge_all(found, device)
    return found.suspicion


@pytest.mark.parametrize("calls_ms", [1.0, 4.0])
def test_one_call_that_does_the_work_of_others_waits_for_a_person(calls_ms):
    name, message = judged((calls_ms, calls_ms / 4), (calls_ms, calls_ms))
    assert name == "WorkSharedBetweenCalls"
    assert f"a call alone takes {calls_ms:.4f} ms" in message


def test_what_an_h100_gave_for_reading_ahead_is_not_forgiven():
    assert judged((0.122, 0.0135), (0.137, 0.229)), "x61, published at nine times the reference by 0.2 ms"
    assert judged((0.122, 0.0233), (0.134, 0.231)), "x62, which puts all calls off"


def test_a_small_claim_for_a_call_alone_is_not_believed():
    found = Measurement(calls=16, reference_calls=16, rounds=rounds(1.0, 0.2, 8), lone=rounds(1.0, 1.0, 1))
    found.lone = [replace(r, candidate_ms=0.2) for r in found.lone]
    judge_all(found, "cuda")
    assert found.suspicion[0] == "WorkSharedBetweenCalls"


def test_a_call_alone_that_is_only_done_when_it_is_asked_for_is_late():
    found = Measurement(calls=16, reference_calls=16, rounds=rounds(1.0, 0.2, 8), lone=rounds(1.0, 0.1, 1))
    late = pairing.Look(candidate_ms=[1.1], reference_ms=[0.2], counts=[1])
    found.lone = [replace(r, look=late) for r in found.lone]
    judge_all(found, "cuda")
    assert found.suspicion[0] == "WorkSharedBetweenCalls"


@pytest.mark.parametrize(
    ("among", "alone"),
    [
        pytest.param((0.012, 0.004), (0.03, 0.08), id="microseconds, slow to launch"),
        pytest.param((1.0, 0.5), (1.0, 0.98), id="as long to launch as to do"),
        pytest.param((2.0, 0.5), (2.8, 1.3), id="weights that stay in a cache among others, on both sides"),
        pytest.param((3.0, 3.0), (3.0, 2.5), id="quicker alone"),
    ],
)
def test_what_launching_and_cold_caches_add_to_a_call_alone_is_nobodys_fault(among, alone):
    assert judged(among, alone) is None


def test_rounds_of_a_single_call_lie_between_all_others():
    lengths = []
    selection.evaluate(lambda m: bool(lengths.append(m.length)), seed=3)
    assert lengths.count(1) >= pairing.MIN_ROUNDS
    at = [place for place, length in enumerate(lengths) if length == 1]
    assert max(at) > 0.8 * len(lengths), "to the end of timing"


def test_a_measurement_carries_them():
    found = Measurement(calls=16, reference_calls=16, rounds=rounds(1.0, 0.5, 8), lone=rounds(1.0, 0.6, 1))
    assert Measurement.from_json(found.to_json()).lone == found.lone


def test_who_is_fast_in_batches_alone_is_seen_by_the_real_rules():
    speedup, made = selection.evaluate(lambda m: m.length > 1, seed=1)
    assert selection.honest_speed(made) > 3, "batches are fast"
    assert speedup is None
