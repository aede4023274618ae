"""Scores against the numbers of KernelBench's own tests, and against what the words promise."""

import math

import numpy as np
import pytest
from kernel_evaluator import scores

A = ([1, 0, 1, 1, 0], [0.1, 0.15, 0.2, 0.05, 0.3], [0.2, 0.15, 0.3, 0.01, 0.2])
B = ([1, 1, 1, 1, 0], [0.24, 0.31, 100, 1e-4, 0.3], [0.3, 0.3, 200, 1e-4, 0.3])
C = ([0, 0, 0, 0, 0], A[1], A[2])


@pytest.mark.parametrize(
    ("case", "geomean", "faster_only", "fast_1", "fast_half"),
    [
        (A, 1.185631101, 5.0, 0.2, 0.4),
        (B, 0.801816719, 1.033333333, 0.2, 0.6),
        (C, None, None, 0.0, 0.0),
    ],
)
def test_scores_agree_with_the_published_cases(case, geomean, faster_only, fast_1, fast_half):
    values = scores.correct_speedups(*case)
    assert scores.geomean(values) == (geomean and pytest.approx(geomean, abs=1e-7))
    assert scores.geomean_faster_only(values) == (faster_only and pytest.approx(faster_only, abs=1e-7))
    assert scores.fast_p(values, 1.0, 5) == pytest.approx(fast_1, abs=1e-7)
    assert scores.fast_p(values, 0.5, 5) == pytest.approx(fast_half, abs=1e-7)


def test_a_speedup_of_exactly_the_threshold_counts_in_fast_at_p_and_not_in_fast_p():
    assert scores.fast_p([1.0, 2.0], 1.0, 2) == 0.5
    assert scores.fast_at_p([1.0, 2.0], 1.0, 2) == 1.0


def test_a_geomean_of_very_many_large_speedups_does_not_overflow():
    assert scores.geomean([1e300] * 250) == pytest.approx(1e300, rel=1e-9)


def test_a_correct_kernel_without_a_time_is_left_out_rather_than_not_a_number():
    assert scores.correct_speedups([1, 1], [1.0, 1.0], [-1.0, 0.5]) == [None, 2.0]


def test_deployed_speedup_counts_missing_and_slow_kernels_as_one():
    assert scores.deployed_speedup([4.0, 0.1, None], 4) == pytest.approx(4.0**0.25)


def test_leaving_hard_problems_out_raises_the_geomean_and_not_the_deployed_speedup():
    whole, picked = [4.0, 0.5, 0.5, 1.2], [4.0, None, None, None]
    assert scores.geomean(picked) > scores.geomean(whole)
    assert scores.deployed_speedup(picked, 4) < scores.deployed_speedup(whole, 4)


def test_more_hits_than_problems_are_refused():
    with pytest.raises(ValueError, match="2 of 1 problems"):
        scores.fast_at_p([2.0, 2.0], 1.0, 1)


def test_pass_at_k_agrees_with_counting_every_choice_of_samples():
    for n, c, k in [(10, 3, 1), (10, 3, 5), (5, 0, 3), (5, 5, 5), (4, 2, 3)]:
        assert scores.pass_at_k(n, c, k) == pytest.approx(1 - math.comb(n - c, k) / math.comb(n, k))


def test_pass_at_k_clamps_k_to_the_samples_there_are():
    assert scores.pass_at_k(2, 1, 100) == 1.0
    assert scores.pass_at_k(0, 0, 1) == 0.0


def test_a_threshold_on_the_edge_of_an_interval_is_not_straddled():
    assert scores.straddles((0.9, 1.1), 1.0)
    assert not scores.straddles((1.0, 1.1), 1.0)
    assert not scores.straddles(None, 1.0)


def test_percentiles_are_over_correct_kernels_only():
    assert scores.percentiles([1.0, None, 3.0], (50,)) == {50: 2.0}
    assert scores.percentiles([None]) == {}


MACHINE = math.log(1 + scores.ELSEWHERE_SHARE)
"""As far as another machine may move the logarithm of a speedup."""


def _gains(seed, level):
    return scores.log_gains(np.exp(np.random.default_rng(seed).normal(level, 0.3, 250)))


def test_entries_that_differ_by_noise_share_a_rank_and_a_clear_winner_does_not():
    base = _gains(1, 0.5)
    noise = np.random.default_rng(2).normal(0, 0.05, base.size)
    ranks = scores.shared_ranks({"twin": np.maximum(base + noise, 0), "best": base + 0.3, "base": base})
    assert ranks == {"best": 1, "base": 2, "twin": 2}


def test_a_small_gain_on_every_problem_is_told_apart_because_the_resampling_is_paired():
    base = _gains(3, 0.5)
    assert scores.shared_ranks({"a": base, "b": base + 0.04}) == {"b": 1, "a": 2}


def test_entries_share_a_rank_where_another_machine_may_be_all_that_differs():
    base = 0.1 + _gains(3, 0.5)
    assert scores.shared_ranks({"a": base, "b": base + math.log(1.024)}) == {"b": 1, "a": 1}
    assert scores.shared_ranks({"a": base, "b": base + math.log(1.026)}) == {"b": 1, "a": 2}
    few = np.where(np.arange(250) < 25, base, 0.0)
    assert scores.shared_ranks({"a": few, "b": few + 0.01 * (few > 0)}) == {"b": 1, "a": 1}
    assert scores.shared_ranks({"a": few, "b": np.maximum(few, 0.05)}) == {"b": 1, "a": 2}


def test_entries_with_equal_gains_share_the_first_rank():
    assert scores.shared_ranks({"a": np.zeros(250), "b": np.zeros(250)}) == {"a": 1, "b": 1}
    assert scores.shared_ranks({}) == {}


def test_entries_are_held_against_the_leader_of_their_rank_not_against_their_neighbour():
    noise = np.random.default_rng(7).normal(0, 0.1, (2, 250))
    noise -= noise.mean(axis=1, keepdims=True)
    behind = noise + 1.5 * noise.std(axis=1, keepdims=True) / math.sqrt(250)
    base = 1.0 + _gains(6, 0.5)
    first, second, third = base + MACHINE, base - behind[0], base - behind[0] - behind[1]
    assert scores.shared_ranks({"second": second, "third": third}) == {"second": 1, "third": 1}
    ranks = scores.shared_ranks({"first": first, "second": second, "third": third})
    assert ranks == {"first": 1, "second": 1, "third": 3}


@pytest.mark.parametrize(("z", "apart"), [(1.5, False), (2.5, True)])
def test_ranks_part_where_95_of_100_resamples_say_so(z, apart):
    base, noise = 1.0 + _gains(8, 0.5), np.random.default_rng(9).normal(0, 0.1, 250)
    noise -= noise.mean()
    ahead = base + noise + z * noise.std() / math.sqrt(noise.size) + MACHINE
    assert scores.shared_ranks({"ahead": ahead, "base": base}) == {"ahead": 1, "base": 2 if apart else 1}


def test_the_interval_is_as_wide_as_a_normal_distributions_of_95_in_100():
    gains = np.abs(np.random.default_rng(10).normal(0.5, 0.2, 1000))
    low, high = scores.geomean_intervals({"a": gains})["a"]
    half = 1.96 * gains.std() / math.sqrt(gains.size)
    assert pytest.approx(2 * half, rel=0.05) == math.log(high / low)


def test_the_interval_holds_the_score_and_is_the_same_every_time():
    gains = _gains(4, 0.4)
    low, high = scores.geomean_intervals({"a": gains})["a"]
    assert low < math.exp(gains.mean()) < high
    assert scores.geomean_intervals({"a": gains}) == {"a": (low, high)}
