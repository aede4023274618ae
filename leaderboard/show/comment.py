"""The one sticky comment a pull request has: records in, Markdown out. Talks to no host and reads no file."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from kernel_evaluator.records.rows import Row, Status

from leaderboard.stages.standings import THRESHOLDS, Scores, Standing
from leaderboard.texts.inert import code_span, fence, one_line
from leaderboard.texts.lists import counted, first_lines, first_words

MARKER = "<!-- kernelbench-leaderboard: sticky comment -->"
LIMIT = 60_000
"""Characters of a comment; GitHub takes 65,536."""
SHOWN_PROBLEMS = 20
LINKS_PER_CAUSE = 25
SHOWN_LOGS = 5
CHANGES_SHOWN = 30
NOTICEABLE = 0.02
"""A speedup that moved by less than this share since the last run is not listed."""

_NOTICE_START, _NOTICE_END = "<!-- notice -->", "<!-- /notice -->"
_HEAD = re.compile(
    re.escape(MARKER)
    + rf"\r?\n(?P<notice>{_NOTICE_START}\r?\n> \[!NOTE\]\r?\n> [^\n]*\n{_NOTICE_END}\r?\n)?"
    + r"(?:<!-- state=(?P<state>[a-z]+) head=(?P<head>[0-9a-f]{40}) -->)?"
)
"""What we write at the head of our comment. Marks count there alone: untrusted text may copy them."""

State = Literal["validating", "invalid", "nothing", "waiting", "queued", "running", "done", "failed"]

TITLES: Mapping[State, str] = {
    "validating": "⏳ Validating",
    "invalid": "❌ This cannot be evaluated yet",
    "nothing": "Nothing to evaluate",
    "waiting": "✅ Valid: waiting for a maintainer",
    "queued": "⏳ In the queue",
    "running": "🏃 Evaluating",
    "done": "🏁 Evaluated",
    "failed": "⚠️ The evaluation did not finish",
}
LABELS: Mapping[State, str] = {
    "invalid": "state: invalid",
    "waiting": "state: waiting",
    "queued": "state: queued",
    "running": "state: evaluating",
    "done": "state: evaluated",
    "failed": "state: failed",
}
"""The label that follows each state; a state without one takes the others off."""


@dataclass(frozen=True, kw_only=True)
class Bill:
    """What an evaluation used: seconds of kernels, and the dollars that its meter counted, if it has one."""

    gpu_seconds: float
    cpu_seconds: float = 0.0
    usd: float | None = None


@dataclass(frozen=True, kw_only=True)
class ScoredRun:
    """What an evaluation gave: the standing the entry would have, and the rows of the run before, if any."""

    standing: Standing | None
    entrants: int
    board: str
    rows: tuple[Row, ...]
    earlier: tuple[Row, ...] = ()
    bill: Bill | None = None

    @property
    def listed(self) -> list[Row]:
        """The rows as they are listed: samples 0 first, which alone are scored."""
        return sorted(self.rows, key=lambda row: row.key.sample)


@dataclass(frozen=True, kw_only=True)
class PullReport:
    """What the comment says. `display_name` and `problems` are untrusted; `links` maps kernels to URLs."""

    state: State
    head_sha: str
    entry: str = ""
    display_name: str = ""
    kernels: int = 0
    problems: tuple[str, ...] = ()
    remark: str = ""
    run_url: str = ""
    outcome: ScoredRun | None = None
    links: Mapping[str, str] = field(default_factory=dict)


def render_comment(report: PullReport) -> str:
    """Give the comment's Markdown, never longer than LIMIT; the least important parts go first when it is."""
    parts = [part for part in _parts(report) if part]
    while len(parts) > 2 and sum(map(len, parts)) + 2 * len(parts) > LIMIT:
        parts.pop()
    return "\n\n".join(parts)[:LIMIT] + "\n"


def add_notice(body: str, notice: str) -> str:
    """Put a notice (our own Markdown) at the head of a comment that is there, in place of an older notice."""
    block = f"{_NOTICE_START}\n> [!NOTE]\n> {' '.join(notice.splitlines())}\n{_NOTICE_END}\n"
    head = _HEAD.match(body)
    if head is None:
        return f"{MARKER}\n{block}\n{body}"
    end = head.end("notice") if head["notice"] else len(MARKER)
    return f"{MARKER}\n{block}{body[end:].lstrip(chr(13) + chr(10))}"


def stage_of(body: str) -> tuple[str, str]:
    """Read back which state a comment of ours shows, for which head; two empty texts where it says none."""
    head = _HEAD.match(body)
    return (head["state"], head["head"]) if head and head["state"] else ("", "")


def status_line(report: PullReport) -> tuple[str, str]:
    """Give the commit status (pending, success, failure, error) and its description for a report."""
    outcome = report.outcome
    if report.state == "done" and outcome is not None and outcome.standing is not None:
        scores = outcome.standing.overall
        text = (
            f"{scores.correct} of {scores.problems} correct, deployed speedup {scores.deployed_speedup:.3f}"
        )
        return "success", text
    states = {"invalid": "failure", "failed": "error", "nothing": "success", "done": "success"}
    return states.get(report.state, "pending"), one_line(TITLES[report.state].partition(" ")[2], 140)


def _parts(report: PullReport) -> list[str]:
    outcome = report.outcome
    return [
        f"{MARKER}\n<!-- state={report.state} head={report.head_sha} -->\n"
        f"### {TITLES[report.state]}{_named(report)}",
        _where(report),
        report.remark,
        _problems(report),
        _scores(outcome) if outcome else "",
        _bill(outcome.bill) if outcome and outcome.bill else "",
        _failures(outcome, report.links) if outcome else "",
        _changes(outcome) if outcome else "",
        _logs(outcome, report.links) if outcome else "",
    ]


def _named(report: PullReport) -> str:
    return f": {code_span(report.display_name)}" if report.display_name else ""


def _where(report: PullReport) -> str:
    facts = [f"entry {code_span(report.entry)}"] if report.entry else []
    facts.append(f"at {code_span(report.head_sha[:12])}")
    facts += [counted(report.kernels, "kernel")] if report.kernels else []
    facts += [f"[run]({report.run_url})"] if report.run_url else []
    return " · ".join(facts)


def _problems(report: PullReport) -> str:
    problems = [code_span(problem, 400) for problem in report.problems]
    return "\n".join(f"- {line}" for line in first_lines(problems, SHOWN_PROBLEMS))


def _scores(outcome: ScoredRun) -> str:
    standing = outcome.standing
    if standing is None:
        return f"No standing on the {code_span(outcome.board)} board."
    levels = [(f"level {level}", scores) for level, scores in sorted(standing.levels.items())]
    rows = [_score_row(name, scores) for name, scores in [("overall", standing.overall), *levels]]
    fast = " | ".join(f"fast@{p:g}" for p in THRESHOLDS)
    head = f"| | deployed speedup | geomean (n) | {fast} | correct |"
    return "\n".join([_rank(outcome, standing), "", head, "|---|--:|--:|--:|--:|--:|--:|", *rows])


def _rank(outcome: ScoredRun, standing: Standing) -> str:
    low, high = standing.deployed_ci95
    interval = (
        f"deployed speedup {standing.overall.deployed_speedup:.3f}× (95 % interval {low:.3f}-{high:.3f})"
    )
    if standing.rank is None:
        why = one_line(standing.unranked_because, 200) or "it is not ranked"
        return f"No rank on the {code_span(outcome.board)} board: {code_span(why, 200)}; {interval}."
    place = f"**rank {standing.rank} of {outcome.entrants}**"
    return f"Merged now it would take {place} on the {code_span(outcome.board)} board: {interval}."


def _score_row(name: str, scores: Scores) -> str:
    geomean = "–" if scores.geomean_speedup is None else f"{scores.geomean_speedup:.3f}× ({scores.geomean_n})"
    fast = " | ".join(f"{100 * scores.fast[p]:.1f} %" for p in THRESHOLDS)
    correct = f"{scores.correct}/{scores.problems}"
    return f"| {name} | {scores.deployed_speedup:.3f}× | {geomean} | {fast} | {correct} |"


def _bill(bill: Bill) -> str:
    cpu = f" and {_seconds(bill.cpu_seconds, 'CPU')}" if bill.cpu_seconds else ""
    text = f"Used {_seconds(bill.gpu_seconds, 'GPU')}{cpu}"
    if bill.usd is None:
        return f"{text}."
    return f"{text}, which cost ${_rounded_up(100 * bill.usd) / 100:,.2f} at most."


def _seconds(seconds: float, processor: str) -> str:
    whole = _rounded_up(seconds)
    return f"{whole:,} {processor}-second{'' if whole == 1 else 's'}"


def _rounded_up(used: float) -> int:
    """Round up, but for what is left of sums of fractions: who used something did not use nothing."""
    return math.ceil(round(used, 6))


def _failures(outcome: ScoredRun, links: Mapping[str, str]) -> str:
    causes = {status: [row for row in outcome.listed if row.status is status] for status in Status}
    lines = [
        f"| {status.value} | {len(rows)} | {_kernel_list(rows, links)} |"
        for status, rows in causes.items()
        if rows and status is not Status.CORRECT
    ]
    if not lines:
        return ""
    table = "\n".join(["| cause | kernels | which |", "|---|--:|---|", *lines])
    return _details("Failures by cause", table)


def _kernel_list(rows: list[Row], links: Mapping[str, str]) -> str:
    return first_words([_linked(row, links) for row in rows], LINKS_PER_CAUSE)


def _linked(row: Row, links: Mapping[str, str]) -> str:
    url = links.get(str(row.key))
    return f"[{_named_key(row)}]({url})" if url else _named_key(row)


def _named_key(row: Row) -> str:
    key = row.key
    return f"`{key.level}/{key.problem_id}" + (f"#{key.sample}`" if key.sample else "`")


def _changes(outcome: ScoredRun) -> str:
    before = {row.key: row for row in outcome.earlier}
    if not before:
        return ""
    lines = [line for row in outcome.listed if (line := _change(before.get(row.key), row))]
    gone = len(before.keys() - {row.key for row in outcome.rows})
    lines += [f"no longer there: {counted(gone, 'kernel')} of the last run"] if gone else []
    body = "\n".join(f"- {line}" for line in first_lines(lines, CHANGES_SHOWN)) or "Nothing of note."
    return _details("What changed since the last run", body)


def _change(old: Row | None, new: Row) -> str:
    name = _named_key(new)
    if old is None:
        return f"{name} is new: {new.status.value}"
    if old.status is not new.status:
        return f"{name}: {old.status.value} → {new.status.value}"
    if old.speedup and new.speedup and abs(new.speedup / old.speedup - 1) > NOTICEABLE:
        return f"{name}: {old.speedup:.3f}× → {new.speedup:.3f}×"
    return ""


def _logs(outcome: ScoredRun, links: Mapping[str, str]) -> str:
    failed = [row for row in outcome.listed if row.failure is not None][:SHOWN_LOGS]
    blocks = [
        f"{_linked(row, links)} {row.status.value}: {code_span(row.failure.name)}\n\n"
        f"{fence(f'{row.failure.message}{chr(10)}{row.failure.log}', 1500)}"
        for row in failed
        if row.failure is not None
    ]
    return _details("Messages of the first failures", "\n\n".join(blocks)) if blocks else ""


def _details(title: str, body: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{body}\n\n</details>"
