"""The sticky comment and the log: what they say, and that hostile text in them stays text."""

import re
from dataclasses import replace

import pytest
from kernel_evaluator.records.keys import KernelKey
from kernel_evaluator.records.rows import Environment, Failure, ResultFile, Row, Status, Timing

from leaderboard.files.submission import Submission, kernel_sha256
from leaderboard.show.comment import (
    LIMIT,
    MARKER,
    Bill,
    PullReport,
    ScoredRun,
    add_notice,
    render_comment,
    stage_of,
    status_line,
)
from leaderboard.stages.aggregate import aggregate
from leaderboard.texts import inert

HEAD = "a" * 40
HOSTILE = [
    "@everyone look",
    "<img src=x onerror=alert(1)>",
    "[click](javascript:alert(1)) ![x](https://evil.example/x.png)",
    "a | b | c\n| --- | --- |",
    "```\n# heading\n@maria\n```",
    "`` ` ``` @maria ```` `",
    "</details><script>alert(1)</script>",
    "::set-output name=a::b\n::error::boo",
    "##[error]boo",
    "\x1b[31mred\x1b[0m \x1b]8;;https://evil.example\x07link\x1b]8;;\x07",
    "\u202egnp.exe\u202c \u200b\ufeff",
    "<!-- kernelbench-leaderboard: sticky comment -->",
    "<!-- /notice --> fixes #1 https://evil.example www.evil.example",
    "x" * 1_000_000,
    "`" * 1_000_000,
    "\n" * 1_000_000,
    "@maria " * 140_000,
]
TIMES = Timing(median=1.0, mean=1.0, std=0.0, min=1.0, max=1.0, n=9)


def row(problem: int, status: Status, sample: int = 0, **fields: object) -> Row:
    digests = dict.fromkeys(("kernel_sha256", "problem_sha256", "evaluator_sha256"), "0" * 64)
    return Row(key=KernelKey(1, problem, sample), status=status, **digests, **fields)


def failed(problem: int, text: str = "boom") -> Row:
    return row(problem, Status.RUNTIME_ERROR, failure=Failure(name=text, message=text, log=text))


def correct(problem: int, speedup: float = 2.0) -> Row:
    timed = {
        "runtime_ms": TIMES,
        "reference_ms": TIMES,
        "speedup": speedup,
        "speedup_ci95": (speedup, speedup),
    }
    return row(problem, Status.CORRECT, **timed)


def outcome(rows: list[Row], **fields: object) -> ScoredRun:
    return ScoredRun(standing=None, entrants=0, board="H100", rows=tuple(rows), **fields)


def without_code(markdown: str) -> str:
    """What GitHub reads as Markdown: the text with code blocks and code spans taken out, as CommonMark says."""
    kept, closing = [], ""
    for line in markdown.split("\n"):
        fence = re.match(r"(`{3,})", line)
        if closing:
            closing = "" if line.strip() == closing else closing
        elif fence:
            closing = fence[1]
        else:
            kept.append(line)
    assert not closing
    return re.sub(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", "", "\n".join(kept))


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_is_code_wherever_it_stands_in_the_comment(text: str) -> None:
    report = PullReport(
        state="failed",
        head_sha=HEAD,
        entry="alice-first",
        display_name=text,
        problems=(text, text),
        outcome=outcome([failed(1, text), failed(2, text)], bill=Bill(gpu_seconds=1.0)),
    )
    body = render_comment(report)
    read = without_code(body)

    assert len(body) <= LIMIT + 1
    assert 1 == read.count(MARKER)
    for sign in (
        "@",
        "javascript:",
        "evil.example",
        "<script",
        "<img",
        "onerror",
        "# heading",
        "#1",
        "\x1b",
        "\u202e",
    ):
        assert sign not in read
    assert set(re.findall(r"</?\w+", read)) <= {"<details", "</details", "<summary", "</summary"}


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_in_the_log_is_no_command(text: str) -> None:
    logged = inert.log_text(text)

    assert all(line.startswith(inert.LOG_PREFIX) for line in logged.split("\n"))
    assert "##[" not in logged
    assert "\x1b" not in logged
    assert len(logged) < 20_000


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_in_an_annotation_stays_one_line_of_one_command(text: str) -> None:
    line = inert.annotation("error", text, file=text[:200])

    assert "\n" not in line
    assert re.fullmatch(r"::error file=[^:,\n]*::[^\n]*", line)


def test_an_evaluation_tells_the_rank_its_interval_and_the_scores_of_each_level() -> None:
    dates = dict.fromkeys(("started_at", "finished_at"), "2026-11-24T00:00:00Z")
    here = {"environments": {"": Environment(device="NVIDIA H100", gpu="H100")}, "evaluator_version": "1"}
    row = replace(correct(1), kernel_sha256=kernel_sha256("one"))
    board = {"gpu": "H100", "sizes": "full", "profile": "ranked"}
    result = ResultFile(entry="mine", submission_sha256="0" * 64, rows=(row,), **board, **dates, **here)
    sent = Submission(entry="mine", sha256="0" * 64, metadata={"display_name": ""}, kernels={row.key: "one"})
    ((standing,),) = (board.standings for board in aggregate([result], {"mine": sent}, {"fp32": {}}))

    def told(**changed: object) -> PullReport:
        found = replace(outcome([row]), standing=replace(standing, **changed), entrants=3)
        return PullReport(state="done", head_sha=HEAD, outcome=found)

    body = render_comment(told())
    low, high = standing.deployed_ci95
    interval = f"deployed speedup 1.003× (95 % interval {low:.3f}-{high:.3f})"
    assert f"Merged now it would take **rank 1 of 3** on the `H100` board: {interval}." in body
    assert "| overall | 1.003× | 2.000× (1) | 0.4 % | 0.4 % | 0.4 % | 1/250 |" in body
    assert "| level 1 | 1.007× | 2.000× (1) | 1.0 % | 1.0 % | 1.0 % | 1/100 |" in body
    assert "| level 2 | 1.000× | – | 0.0 % | 0.0 % | 0.0 % | 0/100 |" in body
    assert "<details>" not in body, "nothing failed, and nothing was before"
    assert ("success", "1 of 250 correct, deployed speedup 1.003") == status_line(told())
    unranked = render_comment(told(rank=None, unranked_because="baseline"))
    assert f"No rank on the `H100` board: `baseline`; {interval}." in unranked


def test_a_comment_that_would_be_too_long_loses_its_least_important_parts() -> None:
    long = "`é" * 5000
    failure = Failure(name=long, message=long, log=long)
    rows = [
        row(at, status, failure=failure, sample=sample, evidence={"violation": "ClocksDisagree"})
        for at, status in enumerate(Status, 1)
        if status is not Status.CORRECT
        for sample in range(100)
    ]
    earlier = tuple(replace(each, status=Status.INFRA_ERROR) for each in rows)
    report = PullReport(
        state="failed",
        head_sha=HEAD,
        entry=long,
        display_name=long,
        problems=(long,) * 500,
        run_url="https://example.org/" + "x" * 300,
        outcome=outcome(rows, earlier=earlier, bill=Bill(gpu_seconds=1e9, cpu_seconds=1e9, usd=1e6)),
        links={
            str(
                each.key
            ): f"https://github.com/{'o' * 39}/{'r' * 20}/blob/{HEAD}/submissions/{'e' * 20}.json?plain=1#L1"
            for each in rows
        },
    )
    body = render_comment(report)

    assert "Failures by cause" in body
    assert "Messages of the first failures" not in body
    assert body.count("<details>") == body.count("</details>")
    assert len(body) <= LIMIT + 1


def test_failures_are_listed_by_cause_with_links() -> None:
    rows = [row(1, Status.MISMATCH, sample=1), failed(1), failed(2), row(3, Status.MISMATCH), correct(4)]
    links = {"level_1_problem_1_sample_0": "https://example.org/1"}
    body = render_comment(PullReport(state="done", head_sha=HEAD, outcome=outcome(rows), links=links))

    assert "| runtime_error | 2 | [`1/1`](https://example.org/1), `1/2` |" in body
    assert "| mismatch | 2 | `1/3`, `1/1#1` |" in body, "what is scored comes first"


def test_messages_are_those_of_the_first_failures_however_many_are_correct() -> None:
    rows = [*map(correct, range(1, 8)), *(failed(problem, f"boom {problem}") for problem in range(8, 14))]
    body = render_comment(PullReport(state="done", head_sha=HEAD, outcome=outcome(rows)))

    assert ["8", "9", "10", "11", "12"] == re.findall(r"runtime_error: `boom (\d+)`", body)


def test_what_changed_is_listed_and_what_did_not_is_not() -> None:
    before = (correct(1), correct(2), failed(3), correct(5), correct(9))
    now = [correct(1, 2.01), correct(2, 3.0), correct(3), correct(4), correct(5, 1.0)]
    now.append(row(5, Status.TIMEOUT, sample=1))
    body = render_comment(PullReport(state="done", head_sha=HEAD, outcome=outcome(now, earlier=before)))

    assert "- `1/2`: 2.000× → 3.000×" in body
    assert "- `1/5`: 2.000× → 1.000×" in body, "what became slower is told as well"
    assert "- `1/3`: runtime_error → correct" in body
    assert "- `1/4` is new: correct" in body
    assert "- `1/5#1` is new: timeout" in body, "samples of a problem are told apart"
    assert "no longer there: 1 kernel of the last run" in body
    same = render_comment(PullReport(state="done", head_sha=HEAD, outcome=outcome(now, earlier=tuple(now))))
    assert "What changed since the last run</summary>\n\nNothing of note." in same
    assert "`1/1`" not in body


@pytest.mark.parametrize(("usd", "said"), [(1.353, "1.36"), (1.1, "1.10"), (0.001, "0.01"), (0.0, "0.00")])
def test_a_bill_with_a_price_says_what_it_cost_at_most(usd: float, said: str) -> None:
    bill = Bill(gpu_seconds=1234.0, cpu_seconds=5.0, usd=usd)
    body = render_comment(PullReport(state="done", head_sha=HEAD, outcome=outcome([], bill=bill)))

    assert "1,234 GPU-seconds" in body
    assert f"which cost ${said} at most" in body


@pytest.mark.parametrize(
    ("gpu", "cpu", "said"),
    [
        (0.3, 0.0, "Used 1 GPU-second."),
        (0.7 + 0.2 + 0.1, 1.2, "Used 1 GPU-second and 2 CPU-seconds."),
        (0.0, 0.4, "Used 0 GPU-seconds and 1 CPU-second."),
    ],
)
def test_who_used_something_is_not_told_nothing(gpu: float, cpu: float, said: str) -> None:
    bill = Bill(gpu_seconds=gpu, cpu_seconds=cpu, usd=None)

    assert said in render_comment(PullReport(state="done", head_sha=HEAD, outcome=outcome([], bill=bill)))


@pytest.mark.parametrize(
    "text", [*HOSTILE, "<!-- notice -->", f"<!-- notice --> <!-- /notice --> {'b' * 40}"]
)
def test_marks_in_a_title_move_no_notice_and_no_state(text: str) -> None:
    body = render_comment(PullReport(state="waiting", head_sha=HEAD, display_name=text))
    marked = add_notice(add_notice(body, "an older word"), "the newest word")

    assert body == marked.replace("<!-- notice -->\n> [!NOTE]\n> the newest word\n<!-- /notice -->\n", "", 1)
    assert ("waiting", HEAD) == stage_of(marked)


def test_a_notice_of_several_lines_stays_one_notice() -> None:
    body = render_comment(PullReport(state="waiting", head_sha=HEAD))

    assert "second" not in add_notice(add_notice(body, "first\n<!-- /notice -->\nsecond"), "third")


def test_a_notice_replaces_the_one_before_and_nothing_else() -> None:
    body = render_comment(PullReport(state="waiting", head_sha=HEAD, entry="alice-first"))
    twice = add_notice(add_notice(body, "first"), "second \\1 \\g<0>")

    assert twice.startswith(MARKER)
    assert "first" not in twice.replace("alice-first", "")
    assert "second \\1 \\g<0>" in twice
    assert body.split("\n", 1)[1] in twice


def test_a_comment_says_for_whom_it_was_written() -> None:
    body = render_comment(
        PullReport(state="running", head_sha=HEAD, entry="alice-first", kernels=2, run_url="https://x")
    )

    assert f"entry `alice-first` · at `{HEAD[:12]}` · 2 kernels · [run](https://x)" in body
    assert ("running", HEAD) == stage_of(add_notice(body, "a notice"))
    assert ("", "") == stage_of("nothing of ours")


@pytest.mark.parametrize(
    ("state", "wanted"),
    [("running", "pending"), ("invalid", "failure"), ("failed", "error"), ("done", "success")],
)
def test_the_commit_status_follows(state: str, wanted: str) -> None:
    found, description = status_line(PullReport(state=state, head_sha=HEAD))

    assert wanted == found
    assert 0 < len(description) <= 140
