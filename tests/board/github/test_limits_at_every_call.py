"""A limit, and a host that stays broken, at every single call from label to result: nothing lost, nothing stuck."""

import time
from collections.abc import Iterator
from datetime import timedelta
from types import SimpleNamespace

import pytest
import urllib3

pytest.importorskip("github")

from fakes.week import Week, a_board, entry, said

from leaderboard.github import queue


@pytest.fixture(scope="module")
def week(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Week]:
    with (
        a_board(tmp_path_factory.mktemp("board"), lambda line: None, at_once=1) as made,
        pytest.MonkeyPatch.context() as monkeypatch,
    ):
        # A clock of its own: whoever waits for a process sleeps meanwhile.
        hasty = SimpleNamespace(time=time.time, sleep=lambda seconds: None)
        monkeypatch.setattr(urllib3.util.retry, "time", hasty)
        made.project.set_on_main("api_retries = 2", "api_retries = 1")
        made.minutes = 30.0
        yield made


def sent(week: Week) -> int:
    number = 100 + len(week.project.host.pulls)
    week.project.open_pull(entry(number), number=number)
    return number


def labelled(week: Week, number: int) -> int:
    """Label a pull request and let everything happen; gives how many calls that took."""
    before = len(week.project.host.requests)
    week.label(week.project.host.pulls[number])
    week.go_on(week.now + timedelta(minutes=50))
    return len(week.project.host.requests) - before


def is_done(week: Week, number: int) -> None:
    pull = week.project.host.pulls[number]

    assert "Evaluated" in said(pull)
    assert "evaluate" not in pull.labels
    assert "[\n\n]" == week.project.host.git("show", f"queue:{queue.FILE}")
    assert week.project.result(f"entry-{number}")


def test_a_limit_at_every_single_call_costs_time_and_nothing_else(week: Week) -> None:
    week.project.host.limits_each = True
    number = sent(week)
    calls = labelled(week, number)
    week.project.host.limits_each = False

    assert calls > 60, "each of some forty calls is made twice"
    is_done(week, number)
    assert ["state: evaluated"] == week.project.host.pulls[number].labels


def test_after_a_host_that_stays_broken_labelling_again_works(week: Week) -> None:
    calls = labelled(week, sent(week))
    for n in range(1, calls + 1, 6):
        number = sent(week)
        week.project.host.broken_from = len(week.project.host.requests) + n
        labelled(week, number)
        week.project.host.broken_from = None
        week.go_on(week.now + timedelta(hours=2))
        if "Evaluated" not in said(week.project.host.pulls[number]):
            labelled(week, number)

        is_done(week, number)
