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


def within(speedup: float, half_width: float) -> Measurement:
    """Rounds of one speedup, whose interval is that wide to either side."""
    rounds = [
        Round(
            reference_ms=10.0 * speedup * (1 + aside * half_width),
            candidate_ms=10.0,
            candidate_wall_ms=10.0,
            overhead_ms=0.0,
            reference_first=at % 2 == 0,
            placing=at,
        )
        for at, aside in enumerate((-1, 0, 1, 0, 0, 1, 0, -1))
    ]
    return Measurement(calls=1, deals=len(rounds), rounds=rounds)


AT_ONCE, LATE = 0.1, stopping.BUDGET_S["cuda"] + 0.1


@pytest.mark.parametrize(
    ("speedup", "half_width", "spent_s", "enough"),
    [
        pytest.param(1.0, 0.004, AT_ONCE, True, id="as fast: within half a per cent"),
        pytest.param(1.0, 0.006, AT_ONCE, False, id="as fast: not within half a per cent"),
        pytest.param(1.0, 0.006, LATE, True, id="later a little more will do"),
        pytest.param(1.0, 0.009, LATE, False, id="and not much more"),
        pytest.param(0.95, 0.012, LATE, False, id="nearly as fast is no slower"),
        pytest.param(0.8, 0.012, AT_ONCE, True, id="slower: within a per cent and a half"),
        pytest.param(0.8, 0.02, LATE, False, id="slower: not within two"),
        pytest.param(0.3, 0.03, LATE, False, id="a third as fast is slower, no more"),
        pytest.param(0.2, 0.04, AT_ONCE, True, id="a fifth as fast: within five per cent"),
        pytest.param(0.2, 0.06, LATE, False, id="a fifth as fast: not within six"),
        pytest.param(0.08, 0.04, AT_ONCE, True, id="a twelfth as fast is no otherwise"),
    ],
)
def test_a_speedup_is_as_exact_as_it_matters(speedup, half_width, spent_s, enough):
    assert is_enough(within(speedup, half_width), spent_s) is enough


@pytest.mark.parametrize(
    ("candidate_ms", "reference_ms", "slow"),
    [(300.0, 290.0, True), (200.0, 190.0, False), (60.0, 1.0, True), (60.0, 50.0, False), (40.0, 1.0, False)],
)
def test_who_takes_long_is_called_as_seldom_as_can_be(candidate_ms, reference_ms, slow):
    assert stopping.is_slow(candidate_ms, reference_ms) is slow
