"""`kbl ci rehearse`: a week of a board, told line by line. Fifty entries, two maintainers, and what befalls them.

Run as a program it prints the transcript; its exit status is 1 where something does not hold.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from fakes.week import MONDAY, Week, a_board, entry, said, title

ENTRIES = 50
EVERY_MINUTES = 6
OPENED_EVERY_MINUTES = 20
FATES = {
    9: "cancelled",
    17: "lost",
    26: "cancelled",
    33: "lost",
}
"""What befalls the runs of some: their job is cancelled, or the run is lost without a word."""
PUSHED_WHILE_IT_WAITS = 21
PUSHED_WHILE_IT_RUNS = 5
CLOSED_WHILE_IT_WAITS = 40
STRANGERS_LABEL = 30
LIMITED = (12, 24, 45)
AUTHORS = ("alice", "bob", "mallory")


def rehearse(week: Week, entries: int = ENTRIES) -> list[str]:
    """Let the week happen; gives what does not hold, which is nothing where all is well."""
    start = MONDAY + timedelta(hours=1)
    week.fates = dict(FATES)
    week.now = start - timedelta(minutes=OPENED_EVERY_MINUTES * entries)
    for n in range(1, entries + 1):
        week.at(week.now + timedelta(minutes=OPENED_EVERY_MINUTES * (n - 1)), lambda n=n: _opened(week, n))
        week.at(start + timedelta(minutes=EVERY_MINUTES * (n - 1)), lambda n=n: _labelled(week, n))
    week.at(
        start + timedelta(minutes=20 + PUSHED_WHILE_IT_RUNS * EVERY_MINUTES),
        lambda: _push(week, PUSHED_WHILE_IT_RUNS),
    )
    week.go_on(start + timedelta(hours=14))
    _label_what_failed(week)
    week.go_on(start + timedelta(hours=28))
    return [*_untrue(week, start)]


def _opened(week: Week, n: int) -> None:
    pull = week.project.open_pull(entry(n), author=AUTHORS[n % 3], number=n)
    week.check(pull)
    week.say(f"{pull.author} opens #{n}: {title(pull)}")


def _labelled(week: Week, n: int) -> None:
    project = week.project
    pull = project.host.pulls[n]
    if n in LIMITED:
        project.host.limit_at = len(project.host.requests) + n % 20 + 1
        week.say(f"the host's allowance is used up and renewed while #{n} is looked at")
    week.label(pull, "mallory" if n == STRANGERS_LABEL else ("maria", "paul")[n % 2])
    if n == PUSHED_WHILE_IT_WAITS:
        _push(week, n)
    if n == CLOSED_WHILE_IT_WAITS:
        pull.state = "closed"
        week.say(f"{pull.author} closes #{n}")


def _push(week: Week, n: int) -> None:
    week.project.push(week.project.host.pulls[n], entry(n, speedup=3.0))
    week.say(f"{week.project.host.pulls[n].author} pushes to #{n}")
    week.check(week.project.host.pulls[n])


def _label_what_failed(week: Week) -> None:
    for n, pull in sorted(week.project.host.pulls.items()):
        if pull.state == "open" and "Evaluated" not in said(pull):
            week.label(pull, ("maria", "paul")[n % 2])


def _untrue(week: Week, start: object) -> list[str]:
    """What does not hold at the end of the week."""
    wrong = []
    for n, pull in sorted(week.project.host.pulls.items()):
        result = week.project.result(f"entry-{n}")
        head = week.project.host.head_of(pull)
        if pull.state == "closed":
            if "was closed while it waited" not in said(pull) and "Evaluated" not in said(pull):
                wrong.append(f"#{n} was closed, and its comment does not say what became of it")
        elif "Evaluated" not in said(pull) or not result or f"head={head}" not in said(pull):
            wrong.append(f"#{n} has no result at its head, or its comment does not say so")
        if any(name.startswith("evaluate") for name in pull.labels):
            wrong.append(f"#{n} still has the label")
    if "pull" in week.project.host.git("show", "queue:queue.json"):
        wrong.append("somebody is left in the queue")
    worst = max(week.requests.values())
    if worst >= 500:
        wrong.append(f"{worst} requests in one hour")
    if week.most_busy != week.at_once:
        wrong.append(f"{week.most_busy} evaluations at once at most, where {week.at_once} may run")
    if week.first_result is None or week.first_result > start + timedelta(minutes=week.minutes + 5):
        wrong.append(f"the first result came at {week.first_result}")
    return wrong


def summary(week: Week) -> str:
    """The figures of the week, in a few lines."""
    results = sum("Evaluated" in said(pull) for pull in week.project.host.pulls.values())
    first = week.first_result
    return (
        f"{len(week.project.host.pulls)} pull requests, {results} evaluated, {week.most_busy} at once at most\n"
        f"an evaluation takes {week.minutes:.0f} minutes; the first result came at {first:%H:%M}\n"
        f"requests in the busiest hour: {max(week.requests.values())}; in all: {sum(week.requests.values())}"
    )


def main(tell: Callable[[str], object] = print) -> int:
    """Rehearse, and tell what happened."""
    with tempfile.TemporaryDirectory() as folder, a_board(Path(folder), tell) as week:
        wrong = rehearse(week)
        tell("")
        tell(summary(week))
        for line in wrong:
            tell(f"WRONG: {line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
