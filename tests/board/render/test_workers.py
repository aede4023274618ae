"""Forked workers: what they make comes in order, and one that is killed is no endless wait."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
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


def test_workers_end_with_who_forked_them_however_that_ends() -> None:
    program = (
        "import os, time\n"
        "from leaderboard.render.workers import spread\n"
        "def work(number):\n"
        "    os.write(1, f'{os.getpid()}\\n'.encode())\n"
        "    time.sleep(1000)\n"
        "list(spread(work, range(4), jobs=2))\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        workers = [int(process.stdout.readline()) for _ in range(2)]
        process.kill()
        assert "" == process.stdout.read()  # whoever lives on holds the other end open

    assert len(set(workers) - {process.pid}) == 2


def with_process(number: int) -> tuple[int, int]:
    return number, os.getpid()


def killed_at_seven(number: int) -> int:
    if number == 7:
        os.kill(os.getpid(), signal.SIGKILL)
    return number
