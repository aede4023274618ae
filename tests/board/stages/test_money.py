"""The three caps, and what an estimate is made of."""

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from kernel_evaluator.engines import epoch

from leaderboard.files.ledger import Spending, read_all, read_month
from leaderboard.files.store import StoreError, read_result
from leaderboard.files.submission import Submission
from leaderboard.stages.money import (
    TELLING_KERNELS,
    Caps,
    Reserved,
    allowance,
    estimate,
    kind_of,
    seconds_by_kind,
)
from leaderboard.stages.record import record_spending

RECORDED = Path(__file__).resolve().parents[3] / "data/results/H100/founders-triton.json"
CAPS = Caps(usd_per_evaluation=60.0, usd_per_entry_and_week=100.0, usd_per_month=1000.0)
TODAY = date(2026, 11, 24)


def spent(usd: float, day: str = "2026-11-23", entry: str = "alice", run: int = 1) -> Spending:
    return Spending(day=day, run=run, entry=entry, board="H100", usd=usd)


@pytest.mark.parametrize(
    ("before", "running", "left"),
    [
        ([], [], 60.0),
        ([spent(70.0)], [], 30.0),
        ([spent(70.0, day="2026-11-18")], [], 30.0),
        ([spent(70.0, day="2026-11-17")], [], 60.0),
        ([spent(70.0, entry="bob")], [], 60.0),
        ([spent(980.0, entry="bob")], [], 20.0),
        ([spent(980.0, entry="bob", day="2026-10-31")], [], 60.0),
        ([spent(1100.0, entry="bob")], [], -100.0),
        ([], [Reserved(entry="alice", usd=60.0)], 40.0),
        ([], [Reserved(entry="bob", usd=60.0)], 60.0),
        ([spent(900.0, entry="bob")], [Reserved(entry="bob", usd=60.0)], 40.0),
    ],
)
def test_the_tightest_of_the_three_caps_holds_and_what_runs_counts_whole(
    before: list[Spending], running: list[Reserved], left: float
) -> None:
    assert left == pytest.approx(allowance(CAPS, "alice", before, running, TODAY))


def test_an_estimate_goes_by_kernels_of_the_same_kind() -> None:
    sources = ["import triton"] * 16 + ["torch.compile(x)"] * 8
    expected = estimate(sources, {"triton": 5.8, "torch.compile": 24.2}, engine="modal", gpu="H100")
    busy = 16 * 5.8 + 8 * 24.2 + 3 * 30

    assert busy / 3 == pytest.approx(expected.seconds)
    price = epoch.judging_usd_per_second(epoch.price_of("modal", "H100"))
    assert busy * price == pytest.approx(expected.usd)


def test_a_kind_of_which_nothing_is_recorded_counts_as_the_slowest() -> None:
    known = {"triton": 5.8, "torch.compile": 24.2}
    new = estimate(["import tilelang"], known, engine="modal", gpu="H100")

    assert estimate(["torch.compile(x)"], known, engine="modal", gpu="H100") == new
    assert 0.0 == estimate([], known, engine="modal", gpu="H100").seconds
    assert ["tilelang", "torch.compile"] == list(map(kind_of, ("import tilelang", "torch.compile(x)")))
    assert "torch" == kind_of("x = 1" + "+1" * 600), "nested too deeply to be read"


def test_a_board_of_hundreds_looks_at_no_more_kernels_than_it_needs() -> None:
    recorded, known = read_result(RECORDED), {}
    results = [replace(recorded, entry=f"entry-{number}") for number in range(300)]
    for one in results:
        kernels = {row.key: f"import triton\n# {one.entry} {row.key}" for row in one.rows}
        known[one.entry] = Submission(entry=one.entry, sha256="", metadata={}, kernels=kernels)
    before = kind_of.cache_info().misses
    (seconds,) = seconds_by_kind(results, known).values()

    assert TELLING_KERNELS >= kind_of.cache_info().misses - before
    every = seconds_by_kind([recorded], {recorded.entry: replace(known["entry-0"], entry=recorded.entry)})
    assert seconds == pytest.approx(every["triton"], rel=0.5)


def test_too_few_kernels_of_a_kind_and_those_of_a_withdrawn_entry_do_not_tell_how_long_it_takes() -> None:
    recorded = read_result(RECORDED)
    kernels = {row.key: "import triton" for row in recorded.rows}
    known = {recorded.entry: Submission(entry=recorded.entry, sha256="", metadata={}, kernels=kernels)}

    def told(*spent: float) -> dict[str, float]:
        judged = zip(recorded.rows, spent, strict=False)
        rows = tuple(replace(row, gpu_seconds=each, second=None) for row, each in judged)
        return dict(seconds_by_kind([replace(recorded, entry="gone"), replace(recorded, rows=rows)], known))

    assert {} == told() == told(2.0, 2.0, 2.0, 2.0) == seconds_by_kind([], {})
    assert {"triton": 2.5} == told(2.0, 2.0, 2.0, 2.0, 4.5, 0.0), "what took no time was not judged"


def test_what_was_spent_is_kept_by_month_and_a_run_counts_once(tmp_path: Path) -> None:
    first, again = spent(1.0), spent(2.0, day="2026-12-01")
    for item in (first, again, spent(3.0, run=2), spent(4.0, day="2026-12-01", run=3)):
        record_spending(tmp_path, item)

    assert [2.0, 3.0] == [item.usd for item in read_month(tmp_path, "2026-11")]
    assert [4.0] == [item.usd for item in read_month(tmp_path, "2026-12")], "published again, spent before"
    assert 9.0 == sum(item.usd for item in read_all(tmp_path))


def test_evaluations_of_a_run_that_was_started_again_count_each(tmp_path: Path) -> None:
    old = '[{"day": "2026-11-23", "run": 1, "entry": "alice", "board": "H100", "usd": 50.0}]'
    (tmp_path / "spending").mkdir()
    (tmp_path / "spending/2026-11.json").write_text(old)
    for item in (spent(1.0, entry="bob"), replace(spent(2.0), attempt=2), replace(spent(3.0), attempt=2)):
        record_spending(tmp_path, item)

    assert [50.0, 1.0, 3.0] == [item.usd for item in read_month(tmp_path, "2026-11")]


def test_a_file_of_the_ledger_that_is_no_month_is_named(tmp_path: Path) -> None:
    (tmp_path / "spending").mkdir()
    (tmp_path / "spending/abc.json").write_text("[]")

    with pytest.raises(StoreError, match=r"abc\.json: the name must be a month"):
        read_all(tmp_path)


@pytest.mark.parametrize("text", ['[{"usd": -1}]', "{}", "null"])
def test_a_broken_ledger_is_an_error_and_not_nothing_spent(tmp_path: Path, text: str) -> None:
    (tmp_path / "spending").mkdir()
    (tmp_path / "spending/2026-11.json").write_text(text)

    with pytest.raises(StoreError, match="not a list of what was spent"):
        read_month(tmp_path, "2026-11")
