"""Ranks are those of `scores.shared_ranks`, and what is known of the same figures is not worked out again."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_evaluator import scores

from leaderboard.stages import ranks
from leaderboard.stages.known import Known, digest_of
from leaderboard.stages.ranks import shared_ranks

PROBLEMS = 40


def field(entries: int, seed: int = 0) -> dict[str, scores.Gains]:
    """Entries from slow to fast, so close that many share a rank."""
    random = np.random.default_rng(seed)
    return {
        f"e{at:03d}": np.fmax(random.normal(0.3 + at / entries, 0.4, PROBLEMS), 0.0) for at in range(entries)
    }


@pytest.fixture(autouse=True)
def small_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "TOGETHER", 4)


@pytest.mark.parametrize("entries", [1, 2, 3, 4, 5, 30])
def test_leader_by_leader_gives_the_same_ranks_as_all_at_once(entries: int) -> None:
    gains = field(entries)
    assert shared_ranks(gains, Known()) == scores.shared_ranks(gains)
    assert len(set(scores.shared_ranks(field(30)).values())) > 3


def test_no_entry_has_no_rank() -> None:
    assert shared_ranks({}, Known()) == {}


CHANGES = {
    "faster": lambda gains, name: {**gains, name: gains[name] * 1.01},
    "gone": lambda gains, name: {other: found for other, found in gains.items() if other != name},
    "new": lambda gains, name: {**gains, "new": gains[name] * 0.99},
    "twin": lambda gains, name: {**gains, "twin": gains[name].copy()},
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", ["e000", "e015", "e029"])
def test_after_a_change_ranks_are_right_and_few_are_looked_at(
    name: str, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Known()
    shared_ranks(field(30), first)
    changed = CHANGES[change](field(30), name)
    looked: list[int] = []
    whole = scores.shared_ranks

    def watched(some: dict[str, scores.Gains]) -> dict[str, int]:
        looked.append(len(some))
        return whole(some)

    monkeypatch.setattr(scores, "shared_ranks", watched)
    assert shared_ranks(changed, Known(first.used)) == whole(changed)
    assert sum(looked) < len(changed)


def test_what_is_known_is_not_made_again_and_what_nobody_asks_for_is_dropped() -> None:
    made: list[list[str]] = []

    def make(names: list[str]) -> dict[str, str]:
        made.append(names)
        return {name: name.upper() for name in names}

    known = Known()
    assert known.all_of({"a": "1", "b": "2"}, make) == {"a": "A", "b": "B"}
    later = Known(known.used)
    assert later.all_of({"b": "2", "c": "3"}, make) == {"b": "B", "c": "C"}
    assert made == [["a", "b"], ["c"]]
    assert set(later.used) == {"2", "3"}


def test_figures_that_differ_in_the_last_digit_have_other_digests() -> None:
    one = np.array([0.1, 0.2])
    assert digest_of("x", one) != digest_of("x", np.nextafter(one, 1.0))
    assert digest_of("x", one) != digest_of("y", one)
