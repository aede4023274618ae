"""An interval that holds nearly everything says nothing of a kernel's speed."""

from dataclasses import replace

import pytest
from kernel_evaluator.timing import pairing
from kernel_evaluator.timing.measurement import Measurement
from kernel_evaluator.timing.suspicions import judge_all


def judged(ratios, device):
    one = pairing.Round(reference_ms=1.0, candidate_ms=1.0, candidate_wall_ms=1.0, overhead_ms=0.0, calls=8)
    rounds = [
        replace(
            one,
            candidate_ms=1 / ratio,
            candidate_wall_ms=1 / ratio + 0.05,
            overhead_ms=0.05,
            reference_first=at % 2 == 0,
        )
        for at, ratio in enumerate(ratios)
    ]
    found = Measurement(calls=8, reference_calls=8, rounds=rounds)
    judge_all(found, device)
    return found.suspicion


@pytest.mark.parametrize(
    ("device", "ratios"),
    [("cuda", [1.0, 1.0, 1.0, 1.4, 1.4, 1.4]), ("cpu", [0.25, 1.0, 1.0, 1.0, 1.0, 2.9])],
)
def test_a_row_that_says_nothing_waits_for_a_person_or_a_calmer_machine(device, ratios):
    assert judged(ratios, device) is None, "as wide as rows may be"
    name, message = judged([ratios[0] / 2, *ratios[1:-1], 2 * ratios[-1]], device)
    assert name == "Unsteady"
    assert "to a side" in message
