"""What a kernel is charged for work that it does only when its outputs are asked for."""

import random
import statistics
from dataclasses import replace

import pytest
from kernel_evaluator.timing.measurement import Measurement
from kernel_evaluator.timing.pairing import Look, Round
from kernel_evaluator.timing.suspicions import charge_deferred, judge_clocks

ROUNDS = 16
CALL_MS = 0.3
WHOLE_MS = 1.3


def delivery_ms(rng):
    """What a delivery takes on a GPU, with the jitter of waking up and of taking turns."""
    return 0.15 + rng.expovariate(20)


def a_round(claim_ms, late_ms, *, rng, calls=8, theirs_ms=delivery_ms):
    return Round(
        reference_ms=2.0,
        candidate_ms=claim_ms,
        candidate_wall_ms=claim_ms,
        overhead_ms=0.0,
        calls=calls,
        look=Look(
            candidate_ms=[delivery_ms(rng) + ms for ms in late_ms],
            reference_ms=[theirs_ms(rng) for _ in late_ms],
            counts=[1] * len(late_ms),
        ),
    )


def charged(rounds):
    found = Measurement(calls=16, rounds=rounds)
    charge_deferred(found, "cuda")
    return found


def gain(found):
    """By how much a kernel of WHOLE_MS looks faster than it is."""
    return WHOLE_MS / found.fields()["runtime_ms"].median


@pytest.mark.parametrize("scatter", [0.0, 0.1])
@pytest.mark.parametrize("calls", [1, 2, 24])
def test_a_fast_kernel_is_not_charged_for_the_jitter_of_deliveries(scatter, calls):
    rng = random.Random(1)
    times, call_ms = 200, 4.0 / calls  # a round is half of a deal
    some = [
        charged(
            [
                a_round(call_ms * (1 + abs(rng.gauss(0, scatter))), [0.0] * 2, rng=rng, calls=calls)
                for _ in range(ROUNDS)
            ]
        )
        for _ in range(times)
    ]
    assert sum(found.deferred_ms > 0 or found.suspicion is not None for found in some) <= 0.02 * times


LAZY = WHOLE_MS - CALL_MS


@pytest.mark.parametrize(
    "put_off",
    [
        pytest.param(lambda at, rng: (CALL_MS, [LAZY] * 2), id="each when it is asked for"),
        pytest.param(lambda at, rng: (CALL_MS, [8 * LAZY, 0.0]), id="not yet done after the batch"),
        pytest.param(
            lambda at, rng: (CALL_MS, [LAZY] * 2) if rng.random() < 0.6 else (WHOLE_MS, [0.0] * 2),
            id="in three rounds of five",
        ),
        pytest.param(
            lambda at, rng: (CALL_MS, [LAZY] * 2) if at % 2 else (WHOLE_MS, [0.0] * 2),
            id="in every second round",
        ),
        pytest.param(lambda at, rng: ((CALL_MS + WHOLE_MS) / 2, [0.0, LAZY]), id="on some inputs only"),
        pytest.param(
            lambda at, rng: (CALL_MS / 2 if at < 6 else CALL_MS, [LAZY] * 2),
            id="with lower claims where looks are certain",
        ),
        pytest.param(
            lambda at, rng: (CALL_MS, [LAZY] * 2) if at >= 8 else (WHOLE_MS, [0.0] * 2),
            id="once looks are certain no more",
        ),
    ],
)
@pytest.mark.parametrize("rounds_a_placing", [4, ROUNDS])
def test_work_put_off_earns_nothing_however_it_is_spread(put_off, rounds_a_placing):
    rng = random.Random(2)
    gains = []
    for _ in range(40):
        rounds = [
            replace(a_round(*put_off(at, rng), rng=rng), placing=at // rounds_a_placing)
            for at in range(ROUNDS)
        ]
        found = charged(rounds)
        gains.append(0.0 if found.suspicion else gain(found))
    assert statistics.fmean(gains) < 1.1
    assert max(gains) < 1.25


def test_quick_deliveries_do_not_make_up_for_a_late_one():
    rng = random.Random(3)
    late = [0.8, -0.1, -0.1, -0.1, -0.1]
    rounds = [a_round(0.1, late, rng=rng, theirs_ms=lambda _: 0.3) for _ in range(ROUNDS)]
    assert charged(rounds).labels == ["deferred-work"]


def test_where_few_looks_are_late_and_claims_differ_all_are_charged():
    rng = random.Random(4)
    honest = [a_round(WHOLE_MS, [0.0] * 2, rng=rng) for _ in range(6)]
    lazy = a_round(CALL_MS, [LAZY] * 2, rng=rng)
    found = charged([*honest, lazy, *[replace(lazy, look=None)] * 8])
    assert found.labels == ["deferred-work"]
    assert gain(found) < 1.1


def test_outputs_delivered_at_once_show_best_how_much_small_work_was_put_off():
    rng = random.Random(3)

    def found(count, late_ms):
        rounds = []
        for _ in range(ROUNDS):
            theirs_ms = 0.15 + 0.03 * count + rng.expovariate(50)
            look = Look(
                candidate_ms=[theirs_ms + count * late_ms + rng.expovariate(50)],
                reference_ms=[theirs_ms],
                counts=[count],
            )
            rounds.append(replace(a_round(0.03, [], rng=rng, calls=40), look=look))
        return charged(rounds)

    assert found(1, 0.06).deferred_ms == pytest.approx(0.06, rel=0.3)
    assert found(1, 0.0).deferred_ms == 0
    assert found(16, 0.06).deferred_ms == pytest.approx(0.06, rel=0.1)
    assert found(16, 0.0).deferred_ms == 0


def test_a_kernel_that_slows_down_without_being_late_is_nobodys_concern():
    rng = random.Random(6)
    slow = [a_round(3 * CALL_MS, [0.0] * 2, rng=rng) for _ in range(7)]
    quick = replace(a_round(CALL_MS, [], rng=rng), look=None)
    found = charged([*slow, *[quick] * 8])
    assert (found.labels, found.suspicion) == ([], None)


def test_a_few_looks_are_no_ground_for_a_charge():
    rng = random.Random(5)
    assert charged([a_round(CALL_MS, [LAZY] * 2, rng=rng) for _ in range(5)]).labels == []


@pytest.mark.parametrize("seed", range(20))
def test_to_work_where_looks_are_certain_and_claim_less_there_too_is_seen(seed):
    rng = random.Random(seed)
    rounds = []
    for at in range(12):
        is_lazy = at >= 5
        each = a_round(CALL_MS, [8 * LAZY * is_lazy, 0.0], rng=rng)
        is_looked_at = at < 6 or rng.random() < 0.5
        wall_ms = CALL_MS if is_lazy else WHOLE_MS
        look = each.look if is_looked_at else None
        rounds.append(replace(each, candidate_wall_ms=wall_ms, look=look, reference_first=at % 2 == 0))
    found = charged(rounds)
    judge_clocks(found, "cuda")
    assert found.suspicion or gain(found) < 1.1


@pytest.mark.parametrize("deals", [6, 8, 12])
def test_a_core_that_is_slower_where_looks_are_certain_makes_no_clocks_disagree(deals):
    rng = random.Random(deals)
    disagree = 0
    for _ in range(100):
        rounds = []
        for at in range(2 * 6 + 4 * (deals - 6)):
            call_ms = 0.6 if rng.random() < (0.42 if at < 12 else 0.86) else 0.9
            each = a_round(call_ms, [0.0] * 2, rng=rng)
            look = each.look if at < 6 or rng.random() < 0.5 else None
            wall_ms = call_ms + rng.gauss(0, 0.005)
            rounds.append(replace(each, candidate_wall_ms=wall_ms, look=look, reference_first=at % 2 == 0))
        found = charged(rounds)
        judge_clocks(found, "cuda")
        disagree += found.suspicion is not None
    assert disagree <= 5
