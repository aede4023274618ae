"""The arithmetic of paired measurements, against what can be worked out by hand."""

import math
import random
import statistics
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_evaluator.timing.pairing import (
    MIN_ROUNDS,
    SECOND_MS,
    SECOND_SHARE,
    Part,
    Round,
    is_tight,
    median_interval,
    oracle_ms,
    round_of,
    speedup,
    timing,
)


def rounds_of(*ratios, overhead_ms=0.5):
    return [
        Round(
            reference_ms=2.0 * ratio,
            candidate_ms=2.0,
            candidate_wall_ms=2.0 + overhead_ms,
            overhead_ms=overhead_ms,
        )
        for ratio in ratios
    ]


@pytest.mark.parametrize(
    ("count", "low", "high"),
    # The binomial table: n = 6 leaves out no order statistic, n = 9 one, n = 12 two, n = 20 five at either end.
    [(6, 0, 5), (8, 0, 7), (9, 1, 7), (11, 1, 9), (12, 2, 9), (20, 5, 14), (60, 21, 38)],
)
def test_the_interval_of_the_median_is_that_of_the_sign_test(count, low, high):
    values = [float(value) for value in range(count)]
    assert median_interval(random.Random(1).sample(values, count)) == (low, high)


@pytest.mark.parametrize("count", [6, 9, 13, 30, 60])
def test_the_interval_holds_the_true_median_in_95_of_100_cases(count):
    draw = random.Random(7)
    hits = 0
    for _ in range(2000):
        low, high = median_interval([draw.lognormvariate(0, 1) for _ in range(count)])
        hits += low <= 1.0 <= high
    assert hits / 2000 > 0.94


def test_the_speedup_is_reference_over_candidate():
    middle, (low, high) = speedup(rounds_of(1.9, 2.0, 2.1, 2.0, 1.8, 2.2))
    assert middle == 2.0
    assert (low, high) == pytest.approx((1.8, 2.2))


def test_a_drift_that_both_sides_share_does_not_show():
    drifting = [
        Round(reference_ms=3 * f, candidate_ms=2 * f, candidate_wall_ms=2 * f, overhead_ms=0.0)
        for f in (1, 1.2, 1.5, 1.1, 2.0, 1.7)
    ]
    assert speedup(drifting)[0] == pytest.approx(1.5)
    assert is_tight(drifting, 1e-9)


def test_tight_is_a_matter_of_both_ends_and_of_enough_rounds():
    steady = [1.0] * 10
    assert is_tight(rounds_of(*steady), 0.005)
    assert not is_tight(rounds_of(*steady[: MIN_ROUNDS - 1]), 0.005)
    assert not is_tight(rounds_of(*[1.0] * 6, *[1.02] * 4), 0.005)
    assert not is_tight(rounds_of(*[1.0] * 6, *[0.98] * 4), 0.005)
    assert is_tight(rounds_of(*[1.0] * 6, *[1.02] * 4), 0.021)


def test_one_stray_round_of_eight_asks_for_no_more_and_shows_in_the_interval():
    rounds = rounds_of(0.94, *[1.0] * 7)
    assert is_tight(rounds, 0.005) and not is_tight(rounds[:7], 0.005)
    assert speedup(rounds)[1][0] == pytest.approx(0.94)


def test_what_writing_costs_one_side_more_is_not_held_against_it():
    part = Part(candidate=[2, 0, 1, 3], reference=[2, 1])
    found = round_of(part, (5.0, 4.0), (9.4, 8.0), bias_ms=0.1, reference_first=True)
    assert (found.reference_ms, found.candidate_ms, found.candidate_wall_ms) == (2.0, 2.0, 2.35)
    assert oracle_ms([found]) == pytest.approx(2.35 - 0.25 - 0.1)


def test_the_oracles_clock_loses_the_overhead_that_the_reference_shows():
    assert oracle_ms(rounds_of(*[1.5] * 6, overhead_ms=0.7)) == pytest.approx(2.0)


def in_places(first_ms, second_ms):
    """Rounds in which either side goes first in turn, and a batch's overhead hangs on its place."""
    return [
        Round(
            reference_ms=2.0,
            candidate_ms=2.0,
            candidate_wall_ms=2.0 + (second_ms if reference_first else first_ms),
            overhead_ms=first_ms if reference_first else second_ms,
            reference_first=reference_first,
        )
        for reference_first in [True, False] * 4
    ]


@pytest.mark.parametrize(("first_ms", "second_ms"), [(0.9, 0.4), (0.4, 0.44), (0.5, 0.5)])
def test_going_second_does_not_bias_the_oracles_clock(first_ms, second_ms):
    assert oracle_ms(in_places(first_ms, second_ms)) == pytest.approx(2.0)


def test_what_a_candidate_leaves_for_the_reference_hides_little():
    rounds = [
        replace(r, overhead_ms=r.overhead_ms + 5.0 * (not r.reference_first)) for r in in_places(0.5, 0.5)
    ]
    assert oracle_ms(rounds) >= 2.0 - SECOND_MS - SECOND_SHARE * 0.5


@given(st.lists(st.floats(0.001, 1000), min_size=1, max_size=60))
def test_a_summary_says_what_the_standard_library_says(values):
    said = timing(values)
    assert (said.median, said.min, said.max, said.n) == (
        statistics.median(values),
        min(values),
        max(values),
        len(values),
    )
    assert math.isclose(said.mean, statistics.fmean(values))
    assert math.isclose(said.std, statistics.pstdev(values), abs_tol=1e-9)
