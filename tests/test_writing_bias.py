"""How much longer it takes to write inputs to one side: a place of memory counts, noise does not."""

from types import SimpleNamespace

import pytest
from kernelbench import batches

BENCH = SimpleNamespace(
    device="cuda",
    input_bytes=8 << 30,
    candidate_buffers={"inputs": "candidate"},
    reference=SimpleNamespace(buffers={"inputs": "reference"}),
)


def bias(monkeypatch: pytest.MonkeyPatch, *later_ms: float) -> float:
    """The bias where writing to the candidate takes so much longer than 4 ms in one survey after the other."""
    written = {"candidate": 0, "reference": 0}

    def time_writing(bench: object, arena: str, calls: int) -> float:
        survey = written[arena] // batches._WRITINGS
        written[arena] += 1
        return 4.0 + (later_ms[survey] if arena == "candidate" else 0.0)

    monkeypatch.setattr(batches, "_time_writing", time_writing)
    return batches.writing_bias(BENCH, 1)


def test_a_usual_difference_is_taken_as_it_is(monkeypatch):
    assert bias(monkeypatch, 0.05) == pytest.approx(0.05)


@pytest.mark.parametrize("noise", [0.4, -0.2])
def test_what_is_not_seen_again_is_noise(monkeypatch, noise):
    assert bias(monkeypatch, noise, 0.01) == pytest.approx(0.01)
    assert bias(monkeypatch, noise, noise, -0.03) == pytest.approx(-0.03)


def test_what_stays_is_a_place(monkeypatch):
    assert bias(monkeypatch, 0.8, 0.3, 0.79) == pytest.approx(0.79)
    assert bias(monkeypatch, 3.0, 3.0, 3.0) == pytest.approx(1.0), "but no more than a quarter"
