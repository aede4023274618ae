"""When timing has seen enough: not while a clock is doubted that more rounds may bear out."""

import pytest
from kernel_evaluator.timing import stopping
from kernel_evaluator.timing.measurement import Measurement
from kernel_evaluator.timing.pairing import Look, Round


def is_enough(found, spent_s, *, has_unseen=False):
    return stopping.is_enough("cuda", found, has_unseen=has_unseen, spent_s=spent_s, left_s=100.0)


AMID_WRITING = [
    (8.2950, 4.8563, 4.6337),
    (8.2946, 5.0897, 4.7916),
    (8.2937, 5.0370, 5.2153),
    (8.2952, 4.8462, 5.0549),
    (8.2920, 5.0118, 4.7801),
    (8.3162, 5.0138, 5.0821),
    (8.3082, 5.0303, 4.8618),
]
"""A copy of 1/39 on an H200: its milliseconds, and what our clock saw beyond its and beyond the reference's."""


def measured(rows: list[tuple[float, float, float]]) -> Measurement:
    rounds = [
        Round(
            reference_ms=8.2925,
            candidate_ms=own,
            candidate_wall_ms=own + beyond,
            overhead_ms=theirs,
            reference_first=at % 2 == 0,
            placing=at // 2,
            look=Look(candidate_ms=[1.0], reference_ms=[1.0], counts=[1]),
        )
        for at, (own, beyond, theirs) in enumerate(rows)
    ]
    return Measurement(calls=1, deals=len(rows), rounds=rounds)


@pytest.mark.parametrize("spent_s", [0.3, 0.7, 1.9])
def test_a_copy_that_our_clock_doubts_by_chance_is_timed_on(spent_s):
    late = measured([(own, beyond + 0.2, theirs) for own, beyond, theirs in AMID_WRITING])
    assert late.is_stretched
    assert not is_enough(late, spent_s)
    late.rounds += measured(AMID_WRITING * 2).rounds
    assert not late.is_stretched
    assert is_enough(late, spent_s)


def test_a_narrow_interval_is_known_while_timing_waits_for_inputs_that_were_not_looked_at():
    steady = measured(AMID_WRITING * 3)
    assert not is_enough(steady, stopping.BUDGET_S["cuda"] - 0.1, has_unseen=True)
    assert steady.is_tight
    assert is_enough(steady, stopping.BUDGET_S["cuda"] + 0.1, has_unseen=True)


def test_timing_does_not_end_as_soon_as_a_doubted_claim_looks_right():
    lying = measured([(own, beyond + 0.2, theirs) for own, beyond, theirs in AMID_WRITING])
    assert not is_enough(lying, 0.3)
    lying.rounds += measured(AMID_WRITING).rounds
    assert not lying.is_stretched
    assert not is_enough(lying, 0.4)


def test_a_clock_that_stays_in_doubt_is_timed_no_longer_than_patience():
    late = measured([(own, beyond + 1.0, theirs) for own, beyond, theirs in AMID_WRITING * 4])
    assert is_enough(late, stopping.OPEN_TIMES * stopping.PATIENCE_S["cuda"] + 0.1)
    assert late.fields()["runtime_ms"].median > 9.0


def test_an_interval_wider_than_any_that_is_asked_for_gets_more_time():
    scattered = [
        (own * (1 + 0.12 * (at % 2)), beyond, theirs) for at, (own, beyond, theirs) in enumerate(AMID_WRITING)
    ]
    patience_s = stopping.PATIENCE_S["cuda"]
    assert not is_enough(measured(scattered), patience_s + 0.1)
    assert is_enough(measured(scattered), stopping.OPEN_TIMES * patience_s + 0.1)
    assert is_enough(measured(AMID_WRITING), patience_s + 0.1)
