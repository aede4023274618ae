"""Forked workers: what they make comes in order, and one that is killed is no endless wait.

Each test has a process of its own: one in which others have used Ray cannot fork.
"""

from __future__ import annotations

import json
import subprocess
import sys

HEAD = """
import json, os, signal, sys
from concurrent.futures.process import BrokenProcessPool
from leaderboard.render.workers import spread

def made_by(number):
    return number, os.getpid()

def killed_at_seven(number):
    if number == 7:
        os.kill(os.getpid(), signal.SIGKILL)
    return number

"""


def said_by(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", HEAD + program], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_what_workers_make_comes_in_the_order_of_the_tasks() -> None:
    said = said_by("print(json.dumps([os.getpid(), list(spread(made_by, range(40), jobs=2, chunk=3))]))")

    own, made = json.loads(said)
    assert [number for number, _ in made] == list(range(40))
    assert own not in {process for _, process in made}


def test_a_worker_that_is_killed_ends_the_work_with_an_error() -> None:
    program = """
try:
    list(spread(killed_at_seven, range(40), jobs=2))
except BrokenProcessPool:
    print("broken")
"""
    assert said_by(program) == "broken\n"


def test_where_ray_was_used_the_work_is_done_without_workers() -> None:
    program = "import ray\nprint(json.dumps([os.getpid(), list(spread(made_by, range(40), jobs=2))]))"

    own, made = json.loads(said_by(program))
    assert made == [[number, own] for number in range(40)]


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
