"""The arithmetic of paired measurements, against what can be worked out by hand."""

import math
import random
import statistics
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernelbench.pairing import (
    MIN_ROUNDS,
    SECOND_MS,
    SECOND_SHARE,
    Look,
    Part,
    Round,
    at_best,
    is_tight,
    median_interval,
    oracle_ms,
    parts,
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


@given(st.integers(1, 256), st.integers(1, 256), st.integers(1, 6), st.randoms(use_true_random=False))
def test_the_reference_runs_inputs_that_the_candidate_runs_in_the_same_part(
    calls, reference_calls, count, draw
):
    reference_calls = min(calls, reference_calls)
    count = min(count, reference_calls)
    dealt = parts(calls, reference_calls, count, draw)
    assert len(dealt) == count
    assert sorted(at for part in dealt for at in part.candidate) == list(range(calls))
    for part in dealt:
        assert part.reference == [at for at in part.candidate if at in part.reference]
        assert len(part.reference) >= 1
    assert abs(sum(len(part.reference) for part in dealt) - reference_calls) < max(count, 2)


def test_a_reference_as_fast_as_the_candidate_runs_every_call_in_the_same_order():
    for part in parts(9, 9, 4, random.Random(3)):
        assert part.reference == part.candidate


def drawn(*speeds, rng=None, noise=0.001, each=4):
    """Rounds of some draws of memory: the reference's and the candidate's milliseconds in each."""
    rng = rng or random.Random(5)

    def jitter():
        return 1 + rng.gauss(0, noise)

    return [
        Round(
            reference_ms=theirs * jitter(),
            candidate_ms=ours * jitter(),
            candidate_wall_ms=ours,
            overhead_ms=0.0,
            draw=draw,
            look=Look(candidate_ms=[0.1], reference_ms=[0.1], are_usual=[True]),
        )
        for draw, (theirs, ours) in enumerate(speeds)
        for _ in range(each)
    ]


def test_where_memory_lies_decides_nothing_whichever_side_is_unlucky():
    unlucky = [(6.4, 4.9)] * 9 + [(4.9, 4.9)] + [(4.9, 6.4)] * 2
    assert speedup(drawn(*unlucky))[0] > 1.2
    assert speedup(at_best(drawn(*unlucky)))[0] == pytest.approx(1.0, abs=0.003)
    assert speedup(at_best(drawn(*[(ours, theirs) for theirs, ours in unlucky])))[0] == pytest.approx(
        1.0, abs=0.003
    )


def test_speeds_that_both_sides_share_or_that_merely_scatter_are_left_as_they_are():
    shared = drawn((3.0, 3.0), (4.2, 4.2), (3.1, 3.1), (3.9, 3.9))
    assert at_best(shared) == shared
    rng = random.Random(6)
    scattered = drawn(*[(3.0 * (1 + rng.gauss(0, 0.03)), 3.0) for _ in range(20)], noise=0.05)
    assert at_best(scattered) == scattered


def test_draws_that_nobody_looked_at_do_not_replace_the_others():
    rounds = drawn((4.0, 4.0), (4.0, 4.0), (4.0, 4.0), (4.0, 2.0), (4.0, 2.0))
    assert speedup(at_best(rounds))[0] == pytest.approx(2.0, abs=0.01)
    unseen = [replace(r, look=None) if r.draw > 2 else r for r in rounds]
    assert at_best(unseen) == unseen


def test_where_all_rounds_count_the_reference_is_not_timed_at_its_best_alone():
    rounds = drawn((4.9, 4.9), (4.9, 6.4), (6.4, 6.4), (6.4, 6.4), (6.4, 6.4))
    assert at_best(rounds) == rounds


@pytest.mark.parametrize("blur", ["one claim of nothing", "claims at random"])
def test_claims_cannot_keep_the_reference_s_luck_in(blur):
    rng = random.Random(7)
    rounds = drawn(*[(6.4, 4.9)] * 9, *[(4.9, 4.9)] * 3)
    if blur == "one claim of nothing":
        rounds[-1] = replace(rounds[-1], candidate_ms=0.0)
    else:
        rounds = [replace(r, candidate_ms=r.candidate_ms * (1 + rng.uniform(-0.1, 0.1))) for r in rounds]
    assert max(r.reference_ms for r in at_best(rounds)) < 5.0


def test_a_candidate_that_idles_where_the_reference_is_fast_gains_nothing():
    gains = []
    for seed in range(100):
        rng = random.Random(seed)
        cores = [1.0 if rng.random() < 0.5 else 1.5 for _ in range(14)]
        idle = drawn(*[(core, 1.0 if core == 1.0 else 0.5) for core in cores], rng=rng, noise=0.0)
        noisy = [replace(r, reference_ms=r.reference_ms * (1 + rng.gauss(0, 0.05))) for r in idle]
        honest = [replace(r, candidate_ms=0.5) for r in noisy]
        gains.append(speedup(at_best(noisy))[0] / speedup(honest)[0])
    assert statistics.quantiles(gains, n=5)[3] < 1.02
