"""Parts of pages without a site: figures in words, who wins where, what holds a record, what a cost is drawn as."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from kernel_evaluator.records.keys import KernelKey
from kernel_evaluator.records.rows import Environment, ResultFile, Status

from leaderboard.files.submission import Submission
from leaderboard.render.model import Baseline
from leaderboard.render.pages.answers import cost_chart
from leaderboard.render.pages.history import progress_of, records_among
from leaderboard.render.pages.problems import Results, atlas
from leaderboard.render.pages.versus import outcome, versus
from leaderboard.render.parts import numbers
from leaderboard.render.parts.charts import histogram
from leaderboard.render.parts.kernels import shard_of, shards_for
from leaderboard.render.parts.lines import EntryLine, KernelLine, entry_lines, is_scored
from leaderboard.stages.aggregate import aggregate

LINE = KernelLine(
    problem="1_1",
    sample=0,
    entry="mine",
    status=Status.CORRECT,
    speedup=2.0,
    interval=(1.9, 2.1),
    runtime_ms=1.0,
    reference_ms=2.0,
    light_share=0.5,
    labels=(),
    message="",
    kernel_sha256="0" * 64,
    language="CUDA",
)
WRONG = LINE._replace(status=Status.MISMATCH, speedup=None, interval=None)
FASTER = LINE._replace(speedup=2.3, interval=(2.2, 2.4))


def entries(**costs: float) -> list[EntryLine]:
    """A board's entries, of which each sent one kernel that nobody judged, and says what it cost."""
    here = {"environments": {"": Environment(device="NVIDIA H100", gpu="H100")}, "evaluator_version": "1"}
    board = {"gpu": "H100", "sizes": "full", "profile": "ranked", **here}
    dates = dict.fromkeys(("started_at", "finished_at"), "2026-11-24T00:00:00Z")
    results = [
        ResultFile(entry=name, submission_sha256="0" * 64, rows=(), **board, **dates) for name in costs
    ]
    sent = {
        name: Submission(
            entry=name,
            sha256="0" * 64,
            metadata={"display_name": name, "generation": {"cost_usd": usd}},
            kernels={KernelKey(1, 1): "one"},
        )
        for name, usd in costs.items()
    }
    return entry_lines(aggregate(results, sent, {"fp32": {}})[0])


def view_of(*lines: KernelLine, **more: Any) -> Any:
    """As much of a board as comparisons and records look at."""
    held = {line.standing.entry: line for line in entries(mine=1.0, other=2.0)}
    return SimpleNamespace(
        name="H100",
        by_entry={name: [line for line in lines if line.entry == name] for name in held},
        names=held,
        entries=list(held.values()),
        board=SimpleNamespace(unranked_problems={"1_23": "zeros pass"}),
        **more,
    )


@pytest.mark.parametrize(
    ("a", "b", "wins"),
    [
        (LINE, LINE, "tie"),
        (FASTER, LINE, "a"),
        (LINE, FASTER, "b"),
        (LINE._replace(interval=(2.1, 2.3)), LINE, "tie"),
        (FASTER._replace(interval=None), LINE, "tie"),
        (LINE, WRONG, "only a"),
        (WRONG, LINE, "only b"),
        (WRONG, WRONG, "neither"),
        (None, LINE, "a did not send"),
        (LINE, None, "b did not send"),
        (None, WRONG, "neither"),
    ],
)
def test_a_win_needs_two_correct_kernels_whose_intervals_do_not_meet(
    a: KernelLine | None, b: KernelLine | None, wins: str
) -> None:
    assert wins == outcome(a, b)


def test_two_entries_are_compared_on_first_samples_of_what_ranks() -> None:
    ours = [FASTER._replace(speedup=4.0), LINE._replace(problem="1_2"), LINE._replace(problem="1_3")]
    theirs = [
        LINE._replace(entry="other", **fields)
        for fields in (
            {"speedup": 1.0, "interval": (0.9, 1.1)},
            {"problem": "1_2"},
            {"problem": "1_3", "status": Status.TIMEOUT},
            *({"problem": "1_4", "sample": 1}, {"problem": "1_23"}, {"problem": "4_1"}),
        )
    ]
    view = view_of(*ours, *theirs)
    found = versus(view, view.names["mine"], view.names["other"])

    assert {"a": 1, "tie": 1, "only a": 1} == found.counts
    assert (2, pytest.approx(2.0)) == (found.both, found.ratio)


def test_a_record_is_what_was_faster_than_all_before_and_names_whose_it_took() -> None:
    view = view_of()
    mine, other = view.names["mine"], view.names["other"]
    fast, alike = LINE._replace(entry="other", speedup=8.0), LINE._replace(entry="other")
    second = LINE._replace(problem="1_2", speedup=4.0)
    arrivals = [("1", mine, LINE), ("2", other, alike), ("3", other, fast), ("3", mine, second)]
    found = records_among(view, [*arrivals, ("4", mine, LINE._replace(problem="1_23"))])

    assert [("1", None), ("3", mine), ("3", None), ("4", None)] == [(each.at, each.holder) for each in found]
    first, last = progress_of(view, found)
    assert (first.at, first.problems, first.deployed) == ("1", 1, pytest.approx(2 ** (1 / 250)))
    assert (last.at, last.problems, last.deployed) == ("3", 2, pytest.approx(32 ** (1 / 250)))


def results(sent: float | None, torch: float | None) -> Results:
    best = {} if sent is None else {"1_1": LINE._replace(speedup=sent)}
    of_pytorch = {} if torch is None else {"1_1": LINE._replace(entry="torch-compile", speedup=torch)}
    view: Any = SimpleNamespace(fastest=best, best_of_pytorch=of_pytorch)
    return Results(view, "1_1", [], 1, Baseline(eager_ms=1.0, source=""), None, "")


@pytest.mark.parametrize(
    ("sent", "torch", "over", "best", "tone"),
    [
        (4.0, 2.0, 2.0, "mine", "up3"),
        (1.5, None, 1.5, "mine", "up2"),
        (1.02, 0.5, 1.02, "mine", "up1"),
        (0.98, 1.0, 0.98, "torch-compile", "even"),
        (2.0, 4.0, 0.5, "torch-compile", "slower"),
        (None, 4.0, None, "torch-compile", "open"),
    ],
)
def test_a_problem_is_held_against_the_best_of_pytorch_which_is_eager_at_least(
    sent: float | None, torch: float | None, over: float | None, best: str, tone: str
) -> None:
    found = results(sent, torch)
    assert (over, best) == (found.over_best, found.best and found.best.entry)
    item: Any = SimpleNamespace(level=1)
    ((cell,),) = atlas([("1_1", item, found, "matmul")]).values()
    assert (tone, False) == (cell.tone, cell.unranked)


def test_only_an_interval_above_one_is_faster_and_light_is_as_unsure_as_the_speedup() -> None:
    assert [True, False, False] == [
        line.is_faster for line in (LINE, LINE._replace(interval=(1.0, 3.0)), WRONG._replace(interval=(2, 3)))
    ]
    assert pytest.approx((0.475, 0.525)) == LINE.light_interval
    assert LINE._replace(light_share=None).light_interval is None


def test_what_is_scored_is_the_first_sample_of_a_problem_that_ranks() -> None:
    keys = (KernelKey(1, 1), KernelKey(1, 1, 1), KernelKey(4, 1), KernelKey(1, 23))
    assert [True, False, False, False] == [is_scored(key, {"1_23"}) for key in keys]


def test_a_cost_that_no_axis_can_hold_is_none() -> None:
    view: Any = SimpleNamespace(entries=entries(absurd=1e-300, cheap=0.002, dear=5.0, unsaid=0.0))
    chart = cost_chart(view)

    assert chart
    assert ["cheap", "dear"] == [point.line.name for point in chart.points]
    assert ["$0.01", "$0.1", "$1"] == [tick.label for tick in chart.across]


def test_a_bar_counts_a_quarter_octave_and_the_last_ones_all_beyond() -> None:
    bars = histogram([0.01, 0.125, 1.0, 1.18, 1.19, 15.9, 400.0])
    assert {0: 2, 12: 2, 13: 1, 27: 2} == {at: bar.number for at, bar in enumerate(bars) if bar.number}
    assert [bars[at].label for at in (0, 12, 27)] == ["below 0.15×", "1.00× to 1.19×", "13.45× and more"]


def test_no_file_of_code_holds_more_than_its_share() -> None:
    assert [1, 1, 2, 2, 4] == [shards_for(kernels) for kernels in (0, 8, 9, 16, 17)]
    assert [0, 0, 1, 3] == [shard_of(digest + "0" * 62, 4) for digest in ("00", "3f", "40", "ff")]


@pytest.mark.parametrize(
    ("write", "given", "words"),
    [
        (numbers.interval, [(1.794, 1.866)], "1.79–1.87"),
        (numbers.interval, [None], ""),
        (numbers.percent, [0.41249], "41.2 %"),
        (numbers.percent, [math.nan], "–"),
        (numbers.seconds, [119.0], "119 s"),
        (numbers.seconds, [120.0], "2.00 min"),
        (numbers.seconds, [7200.0], "2.00 h"),
        (numbers.counted, [1, "entry", "entries"], "1 entry"),
        (numbers.counted, [12345, "entry", "entries"], "12 345 entries"),
        (numbers.counted, [2, "kernel"], "2 kernels"),
        (numbers.amount, [137.4e9, "FLOP"], "137 GFLOP"),
        (numbers.amount, [4.29e12, "B/s"], "4.29 TB/s"),
        (numbers.amount, [1000.0, "B"], "1.00 kB"),
        (numbers.amount, [999.0, "B"], "999 B"),
        (numbers.rank, [2], "2"),
        (numbers.rank, [2, 2], "2="),
        (numbers.rank, [None, 5], "–"),
        (numbers.date, ["2026-11-24T00:00:00Z"], "2026-11-24"),
        (numbers.date, [""], "–"),
    ],
)
def test_figures_are_written_with_their_units(
    write: Callable[..., str], given: list[Any], words: str
) -> None:
    assert words == write(*given).replace(numbers.NARROW, " ")


@pytest.mark.parametrize(
    ("text", "is_link"),
    [
        ("https://example.org/a", True),
        ("http://example.org", True),
        ("javascript:alert(1)", False),
        ("https:///no-host", False),
        ("http://[", False),
        ("https://example.org/" + "x" * 2000, False),
        (None, False),
    ],
)
def test_only_an_address_of_the_web_becomes_a_link(text: str | None, is_link: bool) -> None:
    assert (text if is_link else "") == numbers.safe_url(text)
