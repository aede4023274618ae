"""Forked workers: what they make comes in order, and one that is killed is no endless wait."""

from __future__ import annotations

import os
import signal
from concurrent.futures.process import BrokenProcessPool

import pytest

from leaderboard.render.workers import spread


def test_what_workers_make_comes_in_the_order_of_the_tasks() -> None:
    made = list(spread(with_process, range(40), jobs=2, chunk=3))

    assert [number for number, _ in made] == list(range(40))
    assert os.getpid() not in {process for _, process in made}


def test_a_worker_that_is_killed_ends_the_work_with_an_error() -> None:
    with pytest.raises(BrokenProcessPool):
        list(spread(killed_at_seven, range(40), jobs=2))


def with_process(number: int) -> tuple[int, int]:
    return number, os.getpid()


def killed_at_seven(number: int) -> int:
    if number == 7:
        os.kill(os.getpid(), signal.SIGKILL)
    return number
