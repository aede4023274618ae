"""What a kernel is charged for work that it does only when its outputs are asked for."""

import random

import pytest
from kernelbench.measurement import Measurement
from kernelbench.pairing import Look, Round
from kernelbench.suspicions import charge_deferred

ROUNDS = 16
CALL_MS = 0.08


def measured(rng, late_ms, *, share=1.0, calls=2, at_once=False, scatter=0.0):
    """Rounds in which a share of the candidate's puts `late_ms` a call off, with the jitter seen on a GPU."""
    found = Measurement(calls=2 * calls)
    for at in range(ROUNDS):
        is_late = at < share * ROUNDS
        jitter = [(0.25 + rng.expovariate(10), 0.25 + rng.expovariate(10)) for _ in range(2)]
        put_off = [late_ms * calls, 0.0] if at_once else [late_ms] * 2
        found.rounds.append(
            Round(
                reference_ms=1.0 + rng.gauss(0, scatter),
                candidate_ms=CALL_MS * (1 + rng.gauss(0, scatter)) + (0.0 if is_late else late_ms),
                candidate_wall_ms=CALL_MS,
                overhead_ms=0.0,
                calls=calls,
                look=Look(
                    candidate_ms=[ours + is_late * ms for (ours, _), ms in zip(jitter, put_off, strict=True)],
                    reference_ms=[theirs for _, theirs in jitter],
                ),
            )
        )
    return found


@pytest.mark.parametrize("scatter", [0.0, 0.1])
def test_a_fast_kernel_is_not_charged_for_the_jitter_of_deliveries(scatter):
    rng = random.Random(1)
    charged = 0
    for _ in range(200):
        found = measured(rng, 0.0, scatter=scatter)
        charge_deferred(found)
        charged += found.deferred_ms > 0
    assert charged <= 4


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"at_once": True, "calls": 24},
        pytest.param({"share": 0.6}, id="in three rounds of five"),
    ],
)
def test_work_put_off_is_charged_however_it_is_spread(how):
    rng = random.Random(2)
    for _ in range(20):
        found = measured(rng, 1.0, **how)
        charge_deferred(found)
        assert found.labels == ["deferred-work"]
        assert found.claimed_ms + found.deferred_ms > 0.8 * (CALL_MS + 1.0)


def test_a_few_looks_are_no_ground_for_a_charge():
    found = measured(random.Random(3), 1.0)
    del found.rounds[5:]
    charge_deferred(found)
    assert found.labels == []
