"""Which rounds count where the place of memory decides: no luck in, no luck to choose, and nothing else changed."""

import random
import statistics
from dataclasses import replace

import pytest
from kernel_evaluator.timing.pairing import Look, Round, speedup
from kernel_evaluator.timing.placement import at_best, shows


def drawn(*speeds, rng=None, noise=0.001, each=4):
    """Rounds of some placings: the reference's and the candidate's milliseconds in each."""
    rng = rng or random.Random(5)

    def jitter():
        return 1 + rng.gauss(0, noise)

    return [
        Round(
            reference_ms=theirs * jitter(),
            candidate_ms=ours * jitter(),
            candidate_wall_ms=ours,
            overhead_ms=0.0,
            placing=placing,
            look=Look(candidate_ms=[0.1], reference_ms=[0.1], counts=[1]),
        )
        for placing, (theirs, ours) in enumerate(speeds)
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


def test_two_speeds_near_each_other_are_told_apart_by_many_rounds():
    rng = random.Random(7)
    unlucky = [(1.80, 1.72)] * 8 + [(1.72, 1.72)] * 2 + [(1.72, 1.80)] * 2
    rounds = drawn(*unlucky, rng=rng, noise=0.01, each=15)
    assert speedup(rounds)[0] > 1.03
    assert speedup(at_best(rounds))[0] == pytest.approx(1.0, abs=0.01)
    alike = drawn(*[(1.75, 1.75)] * 12, rng=rng, noise=0.01, each=15)
    assert at_best(alike) == alike


def test_three_speeds_of_the_same_blocks_are_compared_at_the_best():
    rng = random.Random(11)
    blocks = [(9.40, 9.08)] * 3 + [(9.08, 8.92)] * 2 + [(8.92, 9.40)] * 2 + [(9.40, 8.92)] * 2
    rounds = drawn(*blocks, rng=rng, noise=0.0003, each=3)
    assert speedup(rounds)[0] > 1.01
    assert speedup(at_best(rounds))[0] == pytest.approx(1.0, abs=0.002)


def test_cores_that_change_with_the_draws_are_not_taken_for_places_after_many_rounds_either():
    rng = random.Random(9)
    launched = drawn(
        *[(2.0 * (1 + rng.gauss(0, 0.05)), 2.0) for _ in range(20)], rng=rng, noise=0.04, each=15
    )
    assert at_best(launched) == launched


def test_a_busy_core_is_not_taken_for_a_place_though_some_draws_were_calm():
    """A copy of 3/42, a recurrent model, on a busy host: milliseconds of the reference and of the copy."""
    calls = [
        [(116.38, 130.51), (106.79, 107.16)],
        [(118.95, 134.79), (129.71, 116.65)],
        [(98.25, 126.89), (97.81, 98.84)],
        [(138.87, 140.34), (138.52, 137.95)],
        [(108.20, 100.55)],
    ]
    rounds = [
        replace(r, placing=placing)
        for placing, some in enumerate(calls)
        for r in drawn(*some, noise=0.0, each=1)
    ]
    assert at_best(rounds) == rounds


@pytest.mark.parametrize("each", [2, 6])
def test_slowing_one_in_ten_of_the_reference_s_rounds_does_not_keep_its_luck_in(each):
    gains = []
    for seed in range(100):
        rng = random.Random(seed)
        places = [(8.48 if rng.random() < 0.7 else 8.0, 8.0) for _ in range(16)]
        rounds = drawn(*places, rng=rng, each=each)
        slowed = [replace(r, reference_ms=r.reference_ms * rng.choice([1.2] + [1.0] * 9)) for r in rounds]
        gains.append(speedup(at_best(slowed))[0])
    assert statistics.median(gains) < 1.005
    assert sum(gain > 1.01 for gain in gains) < 35


def test_a_core_that_was_slow_for_a_while_is_not_taken_for_a_place():
    rng = random.Random(8)
    steady = [drawn((16.0, 16.0), rng=rng, noise=0.02, each=2) for _ in range(20)]
    for placing in (4, 11):
        steady[placing] = drawn((24.0, 16.0), rng=rng, noise=0.02, each=2)
    rounds = [replace(r, placing=placing) for placing, some in enumerate(steady) for r in some]
    assert at_best(rounds) == rounds


@pytest.mark.parametrize(
    "speeds", [[(4.9, 6.4), (4.9, 6.4), (6.4, 6.4)], [(4.9, 6.4), (4.9, 4.9), (4.9, 6.4)]]
)
def test_two_speeds_of_either_side_show(speeds):
    assert shows(drawn(*speeds))
    assert not shows(drawn(*[speeds[0]] * 3))


@pytest.mark.parametrize("share", [0.6, 0.93, 0.95])
@pytest.mark.parametrize("placings", [{1}, {1, 2}])
def test_a_few_draws_with_small_claims_do_not_become_the_only_ones_that_count(share, placings):
    few, many = drawn(*[(6.4, 4.9)] * 4, each=2), drawn(*[(6.4, 4.9)] * 6, *[(4.9, 4.9)] * 5, each=6)
    honest = [*few, *(replace(r, placing=r.placing + 4) for r in many)]
    lying = [replace(r, candidate_ms=share * r.candidate_ms) if r.placing in placings else r for r in honest]
    assert speedup(at_best(honest))[0] == pytest.approx(1.0, abs=0.01)
    assert speedup(at_best(lying))[0] == pytest.approx(1.0, abs=0.01)


def test_a_reference_that_was_fast_in_one_draw_of_many_is_not_timed_by_that_alone():
    speeds = [(4.9, 4.9), (4.9, 6.4)] * 6
    speeds[4] = (4.4, 4.9)
    assert speedup(at_best(drawn(*speeds)))[0] == pytest.approx(1.0, abs=0.01)


def test_claims_of_nothing_are_no_times_that_could_differ():
    rounds = [replace(r, candidate_ms=0.0) for r in drawn((4.9, 4.9), (4.9, 4.9), (4.9, 4.9))]
    assert not shows(rounds)
    assert len(at_best(rounds)) == len(rounds)


def test_draws_that_nobody_looked_at_do_not_replace_the_others():
    rounds = drawn((4.0, 4.0), (4.0, 4.0), (4.0, 4.0), (4.0, 2.0), (4.0, 2.0))
    assert speedup(at_best(rounds))[0] == pytest.approx(2.0, abs=0.01)
    unseen = [replace(r, look=None) if r.placing > 2 else r for r in rounds]
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
