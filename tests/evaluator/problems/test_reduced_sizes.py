"""Reduced sizes: made for our problems, and for those of others that have the same sizes."""

from __future__ import annotations

import pytest
from kernel_evaluator.problems.deciding import deal_for
from kernel_evaluator.problems.inputs import load_module
from kernel_evaluator.problems.problem_set import Problem, ProblemSet, read_sizes

OURS = ProblemSet().load(1, 7)


def problem(source: str) -> Problem:
    return Problem(level=1, problem_id=7, name="7_Own", source=source)


def test_ours_is_reduced_and_says_so() -> None:
    reduced = OURS.reduced(read_sizes())

    assert read_sizes()["1_7"] == reduced.overrides
    assert OURS.sha256 != reduced.sha256


def test_one_with_other_words_and_the_same_sizes_is_reduced() -> None:
    assert problem(f"# Theirs\n{OURS.source}").reduced(read_sizes()).overrides


def test_one_that_an_editor_began_with_a_byte_order_mark_is_the_same_problem(tmp_path) -> None:
    (tmp_path / "level1").mkdir()
    (tmp_path / "level1" / "7_Own.py").write_bytes(b"\xef\xbb\xbf" + OURS.source.encode())
    own = ProblemSet(tmp_path).load(1, 7)

    assert own.sha256 == OURS.sha256
    assert load_module(own.reduced(read_sizes())).get_inputs()


@pytest.mark.parametrize(
    "source", ["class Model: ...\n", OURS.source.replace("M = ", "M = 3 + "), "def broken(:\n"]
)
def test_one_of_other_sizes_stays_as_it_is(source: str) -> None:
    own = problem(source)

    assert own is own.reduced(read_sizes())


def test_a_problem_whose_digest_was_asked_for_can_still_be_reduced():
    problem = ProblemSet().load(2, 14)
    full = problem.sha256
    small = problem.reduced(read_sizes())
    assert small.overrides
    assert small.sha256 not in (full, "")
    assert problem.sha256 == full


@pytest.mark.parametrize("sizes", ["full", "reduced"])
def test_timed_inputs_are_known_at_every_size(sizes):
    for level, problem_id in ((1, 1), (2, 14), (2, 40), (3, 1)):
        problem = ProblemSet().load(level, problem_id)
        assert problem.sha256
        asked = problem if sizes == "full" else problem.reduced(read_sizes())
        shares = deal_for(asked, "fp32", ["upstream", "signed"]).shares
        assert sum(shares.values()) == pytest.approx(1)
