"""Which language wins where, what families are worth, and which entries no other beats for less."""

from __future__ import annotations

import pytest

from leaderboard.stages.facets import by_family, pareto, wins_by_language
from leaderboard.stages.speedups import Speedups

FAMILIES = {"1_1": "matmul", "1_2": "matmul", "1_23": "activation"}


def test_an_entry_is_scored_over_each_family_as_over_all_problems() -> None:
    entries = {
        "mine": Speedups.of(["1_1", "1_2", "1_23", "1_99"], [4.0, None, 0.5, 9.0]),
        "other": Speedups.of(["1_1", "1_2", "1_23", "1_99"], [1.0, 1.0, 3.0, None]),
    }
    found = by_family(entries, {**FAMILIES, "3_1": "recurrent"})

    assert {"matmul", "activation"} == set(found), "no problem of the third counts"
    assert {"mine": pytest.approx(2.0), "other": 1.0} == found["matmul"]
    assert {"mine": 1.0, "other": pytest.approx(3.0)} == found["activation"]
    assert {} == by_family({}, FAMILIES)


def test_a_familys_languages_are_those_of_its_fastest_kernels_most_first() -> None:
    fastest = {"1_1": "CUDA", "1_2": "Triton", "1_23": "CUDA", "1_99": "C++"}
    families = {**FAMILIES, "1_23": "matmul"}

    assert {"matmul": [("CUDA", 2), ("Triton", 1)]} == wins_by_language(fastest, families)


def test_what_another_beats_for_the_same_money_or_less_is_not_on_the_front() -> None:
    points = [(4.0, 2.0), (3.0, 1.4), (1.0, 1.2), (1.0, 1.5), (2.0, 1.5)]

    assert [(1.0, 1.5), (4.0, 2.0)] == pareto(points)
