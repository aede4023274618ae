"""What stands on a terminal while kernels are judged."""

from __future__ import annotations

import pytest
from kernel_evaluator.records.keys import KernelKey
from kernel_evaluator.records.rows import Failure, Row, Status, Timing

from leaderboard.show.progress import Reporter, describe

TIMED = {
    **dict.fromkeys(("runtime_ms", "reference_ms"), Timing(median=1, mean=1, std=0, min=1, max=1, n=9)),
    "speedup": 1.5,
    "speedup_ci95": (1.45, 1.561),
}
ODD = Failure(name="ClocksDisagree", message="the clocks are far apart\nby far")


def row(status: Status, sample: int = 0, **fields: object) -> Row:
    digests = dict.fromkeys(("kernel_sha256", "problem_sha256", "evaluator_sha256"), "0" * 64)
    return Row(key=KernelKey(1, 19, sample), status=status, **digests, **fields)


@pytest.mark.parametrize(
    ("judged", "words"),
    [
        (row(Status.CORRECT, **TIMED), "1/19 correct 1.5x (1.45-1.56)"),
        (row(Status.CORRECT, 2, **TIMED, second={}), "1/19 sample 2 correct 1.5x (1.45-1.56)"),
        (row(Status.CORRECT, **TIMED, second={"rounds": {}}), "1/19 correct 1.5x (1.45-1.56), confirmed"),
        (row(Status.CORRECT), "1/19 correct"),
        (row(Status.MISMATCH, failure=ODD), "1/19 mismatch: ClocksDisagree: the clocks are far apart"),
        (
            row(Status.QUARANTINED, **TIMED, evidence={"violation": "x"}, failure=ODD),
            "1/19 quarantined 1.5x (1.45-1.56): ClocksDisagree: the clocks are far apart",
        ),
    ],
)
def test_a_verdict_is_one_line_with_its_figures_and_its_reason(judged: Row, words: str) -> None:
    assert words == describe(judged)


def test_a_verdict_that_comes_a_second_time_is_said_to(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("CI", raising=False)
    reporter = Reporter()
    with reporter.over(2):
        for _ in range(3):
            reporter.show(row(Status.CORRECT))
    reporter.event("spent", {"usd": 1.5, "calls": None})
    reporter.event("compiling", {"key": "level_1_problem_19_sample_0"})
    lines = ["[1/2] 1/19 correct", "[2/2] 1/19 correct", "[again] 1/19 correct", "spent: usd 1.5"]
    assert lines == capsys.readouterr().err.splitlines()
