"""The luck of where the reference's memory lies decides nothing, and no rule chooses a candidate's rounds."""

import random
import statistics
from dataclasses import replace

import pytest
from kernel_evaluator.timing.measurement import Measurement
from kernel_evaluator.timing.pairing import Look, Round, speedup
from kernel_evaluator.timing.placement import reference_where_it_shows_ms, without_luck
from kernel_evaluator.timing.suspicions import judge_all


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


def test_two_speeds_of_the_reference_show():
    assert reference_where_it_shows_ms(drawn(*[(4.9, 6.4)] * 4, *[(6.4, 6.4)] * 2)) == pytest.approx(
        4.9, 0.01
    )
    assert reference_where_it_shows_ms(drawn(*[(4.9, 6.4)] * 6)) is None


def test_a_copy_whose_few_placings_met_faster_and_slower_cores_is_no_slower_for_it():
    """A copy of 3/39 on an H200 of a busy host: both sides took 51 to 72 ms, for as long as cores were so."""
    theirs = [59.71123, 59.04003, 52.98566, 69.55715, 70.68115, 69.93175, 68.25645, 71.46688, 51.38701]
    ours = [56.65673, 55.73424, 65.51923, 69.64205, 70.52854, 70.68118, 71.58525, 72.11127, 61.45568]
    rounds = [
        Round(reference_ms=r, candidate_ms=c, candidate_wall_ms=c + 1, overhead_ms=1.0, placing=at // 2)
        for at, (r, c) in enumerate(zip(theirs, ours, strict=True))
    ]
    assert speedup(without_luck(rounds))[0] == pytest.approx(0.991, abs=0.001)


def test_cores_that_change_with_the_placings_are_not_taken_for_places():
    rng = random.Random(9)
    speeds = [(2.0 * (1 + rng.gauss(0, 0.05)), 2.0) for _ in range(20)]
    assert reference_where_it_shows_ms(drawn(*speeds, rng=rng, noise=0.04, each=15)) is None


@pytest.mark.parametrize("fast", [1, 2, 4, 7])
def test_a_kernel_that_is_fast_where_it_likes_is_timed_where_it_is_slow_too(fast):
    rounds = drawn(*[(4.0, 1.0)] * fast, *[(4.0, 4.0)] * (16 - fast))
    found = Measurement(calls=4, reference_calls=4, rounds=rounds)
    usual = statistics.median(r.reference_ms / r.candidate_ms for r in rounds)
    assert found.fields()["speedup"] == pytest.approx(usual, rel=1e-3) == pytest.approx(1.0, abs=0.01)


def test_where_the_reference_s_memory_lies_makes_no_candidate_faster():
    unlucky = [(6.4, 4.9)] * 9 + [(4.9, 4.9)] + [(4.9, 6.4)] * 2
    rounds = drawn(*unlucky)
    assert speedup(rounds)[0] > 1.2
    assert speedup(without_luck(rounds))[0] == pytest.approx(1.0, abs=0.003)


def test_speeds_that_both_sides_share_or_that_merely_scatter_are_left_as_they_are():
    shared = drawn(*[(3.0, 3.0), (4.2, 4.2), (3.1, 3.1), (3.9, 3.9)] * 2)
    assert speedup(without_luck(shared))[0] == pytest.approx(speedup(shared)[0], rel=0.002)
    rng = random.Random(6)
    scattered = drawn(*[(3.0 * (1 + rng.gauss(0, 0.03)), 3.0) for _ in range(20)], noise=0.05)
    assert without_luck(scattered) == scattered


def test_a_copy_that_lay_as_badly_as_its_reference_is_no_slower_for_it():
    """A copy of 2/77 on an H100, in sixteen placings: each side lay badly in most, and rarely both well."""
    slow, fast = 6.93, 5.4
    theirs = [fast, slow, slow, slow, slow, fast, slow, slow, fast, slow, fast, fast, slow, slow, slow, slow]
    ours = [fast, fast, slow, fast, slow, slow, fast, slow, slow, slow, slow, slow, fast, fast, slow, fast]
    rounds = drawn(*zip(theirs, ours, strict=True), each=2)
    assert reference_where_it_shows_ms(rounds) == pytest.approx(fast, rel=0.01)
    assert speedup(without_luck(rounds))[0] == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("blur", ["one claim of nothing", "claims at random"])
def test_claims_cannot_keep_the_reference_s_luck_in(blur):
    rng = random.Random(7)
    rounds = drawn(*[(6.4, 4.9)] * 9, *[(4.9, 4.9)] * 3)
    if blur == "one claim of nothing":
        rounds[-1] = replace(rounds[-1], candidate_ms=0.0)
    else:
        rounds = [replace(r, candidate_ms=r.candidate_ms * (1 + rng.uniform(-0.1, 0.1))) for r in rounds]
    counted = without_luck(rounds)
    assert statistics.median(r.reference_ms for r in counted) < 1.1 * 4.9  # of 6.4


def test_a_core_that_was_slow_for_a_while_is_not_taken_for_a_place():
    rng = random.Random(8)
    steady = [drawn((16.0, 16.0), rng=rng, noise=0.02, each=2) for _ in range(20)]
    for placing in (4, 11):
        steady[placing] = drawn((24.0, 16.0), rng=rng, noise=0.02, each=2)
    rounds = [replace(r, placing=placing) for placing, some in enumerate(steady) for r in some]
    assert without_luck(rounds) == rounds


def test_a_reference_whose_memory_lay_badly_beside_a_candidate_was_not_slowed_by_it():
    """A copy of 2/77 on an H100: alone, with the device to itself, the reference met one place eight times."""
    places = [(6.9, 5.4), (5.45, 5.44), (6.92, 5.4), (6.95, 6.95), (6.94, 6.96), (5.4, 6.9), (6.91, 6.93)]
    lucky = Measurement(calls=2, reference_calls=2, rounds=drawn(*places, each=2), alone_ms=5.44)
    judge_all(lucky, "cuda")
    assert lucky.suspicion is None
    slowed = Measurement(calls=2, reference_calls=2, rounds=drawn(*[(6.9, 5.4)] * 7, each=2), alone_ms=5.44)
    judge_all(slowed, "cuda")
    assert slowed.suspicion[0] == "ReferenceSlowed"
