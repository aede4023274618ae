"""No rule of timing gives a kernel more than the median of its rounds: adversaries by the dozen, on the real rules."""

import statistics
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "benchmarks"))

import selection
from hypothesis import given, settings
from hypothesis import strategies as st

WORTH = 0.01
SEEN = 4
PLACINGS = ("fast in the first two placings", "fast in 1 of 8 placings", "fast in 1 of 3 placings")
INPUTS = ("fast on usual inputs of large deals", "fast on all but usual inputs")


@pytest.mark.parametrize("device", ["0.1 ms", "1 ms or 1.3"])
def test_a_steady_kernel_has_the_speed_that_it_has(device):
    found = [
        selection.evaluate(lambda m: False, seed, **selection.DEVICES[device])[0] for seed in range(SEEN)
    ]
    assert statistics.median(found) <= 1.01


@pytest.mark.parametrize("name", PLACINGS)
def test_who_is_fast_in_some_placings_gains_nothing(name):
    gain = selection.gain_of(name, selection.policies()[name], SEEN, seed=1)
    assert gain.mean < WORTH


@pytest.mark.parametrize("name", INPUTS)
def test_who_is_fast_on_some_inputs_gains_nothing(name):
    gain = selection.gain_of(name, selection.policies()[name], SEEN, seed=1, reference_ms=0.1)
    assert gain.mean < WORTH


@settings(max_examples=8, derandomize=True)
@given(
    weights=st.lists(st.floats(-1, 1), min_size=5, max_size=5),
    share=st.floats(0.02, 0.4),
    reference_ms=st.sampled_from([0.1, 1.0, 6.0]),
)
def test_no_mixture_of_what_a_kernel_knows_and_of_chance_gains(weights, share, reference_ms):
    """Fast where a mixture of the placing, the place, the input, the batch and chance is small enough."""

    def score(m):
        facts = (m.placing * 0.37 % 1, m.place / m.length, m.kind == "upstream", m.batch * 0.21 % 1, m.chance)
        return sum(w * f for w, f in zip(weights, facts, strict=True))

    drawn = selection.moments(reference_ms=reference_ms)
    limit = sorted(map(score, drawn))[int(share * len(drawn))]
    gain = selection.gain_of(
        "mixture", lambda m: score(m) < limit, SEEN // 2, seed=1, reference_ms=reference_ms
    )
    assert gain.mean < WORTH, (gain, weights, share)
