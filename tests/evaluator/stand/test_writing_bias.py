"""How much longer it takes to write inputs to one side: a place of memory counts, noise does not."""

from types import SimpleNamespace

import pytest
import torch
from kernel_evaluator.problems.inputs import InputLeaf
from kernel_evaluator.stand import input_sets
from kernel_evaluator.stand.input_sets import InputSets


def bias(monkeypatch: pytest.MonkeyPatch, *later_ms: float) -> float:
    """The bias where writing to the candidate takes so much longer than 4 ms in one survey after the other."""
    written = {"candidate": 0, "reference": 0}

    def time_writing(_: object, arena: str, calls: int) -> float:
        survey = written[arena] // input_sets._WRITINGS
        written[arena] += 1
        return 4.0 + (later_ms[survey] if arena == "candidate" else 0.0)

    monkeypatch.setattr(InputSets, "_time_writing", time_writing)
    buffers = SimpleNamespace(
        reference={"inputs": "reference"}, candidate={"inputs": "candidate"}, share=lambda *_: None
    )
    leaf = InputLeaf(dtype=torch.float32, shape=(2, 1 << 30))
    sets = InputSets([leaf], buffers, SimpleNamespace(is_gpu=True))
    sets.survey(1)
    return sets.writing_bias_ms


def test_a_usual_difference_is_taken_as_it_is(monkeypatch):
    assert bias(monkeypatch, 0.05) == pytest.approx(0.05)


@pytest.mark.parametrize("noise", [0.4, -0.2])
def test_what_is_not_seen_again_is_noise(monkeypatch, noise):
    assert bias(monkeypatch, noise, 0.01) == pytest.approx(0.01)
    assert bias(monkeypatch, noise, noise, -0.03) == pytest.approx(-0.03)


def test_what_stays_is_a_place(monkeypatch):
    assert bias(monkeypatch, 0.8, 0.3, 0.79) == pytest.approx(0.79)
    assert bias(monkeypatch, 3.0, 3.0, 3.0) == pytest.approx(1.0), "but no more than a quarter"
