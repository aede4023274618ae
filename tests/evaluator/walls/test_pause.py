"""What is stopped stands still, and what does not is seen."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from kernel_evaluator.walls import sandbox

BURNERS = {
    "four that spin": "for _ in range(4):\n    if os.fork() == 0:\n        while True: pass\nwhile True: pass",
    "threads": "import threading\ndef spin():\n    while True: pass\n[threading.Thread(target=spin).start() for _ in range(4)]",
    "one that forks and ends, again and again": "for _ in range(4000):  # a machine has 32768 numbers for processes\n"
    "    if not os.path.exists(f'/proc/{keeper}') or os.fork():\n        os._exit(0)",
}
KEEPER = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
if os.fork() == 0:
    exec(sys.argv[1])
while True:
    try: os.wait()
    except ChildProcessError: break
"""


def wait_for_a_stop(pids, keeper):
    """Wait until every thread has heard that it is stopped, which on a busy machine takes a while.

    Not where something forks on: what ends then waits for a keeper that is stopped, until no number is left.
    """
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and set(sandbox.descendants(keeper)) <= set(pids):
        if all(state in "TZ" for pid in pids for state in states(pid)):
            return
        time.sleep(0.01)


def states(pid):
    """The states of a process's threads, as far as it is not gone meanwhile."""
    with suppress(FileNotFoundError, ProcessLookupError):
        for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
            yield stat.read_text().rpartition(")")[2].split()[0]


@pytest.mark.parametrize("kind", BURNERS)
@pytest.mark.parametrize("nth", range(5))
def test_what_was_stopped_uses_no_processor_or_is_seen(kind, nth):
    keeper = subprocess.Popen(
        [sys.executable, "-c", KEEPER, f"keeper = os.getppid()\nprint('ready', flush=True)\n{BURNERS[kind]}"],
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        assert keeper.stdout.readline() == b"ready\n"
        time.sleep(0.05)
        stopped = sandbox.stop_all(keeper.pid)
        wait_for_a_stop(stopped, keeper.pid)
        before = sandbox.processor_seconds(sandbox.descendants(keeper.pid))
        time.sleep(0.1)
        family = sandbox.descendants(keeper.pid)
        is_seen = bool(set(family) - set(stopped))
        assert is_seen or sandbox.processor_seconds(family) - before == 0
    finally:
        os.killpg(keeper.pid, signal.SIGKILL)  # all at once: who forks and ends would slip through a list
        keeper.wait()


FORKS = """
import os
held = bytes(400 << 20).replace(b"\\0", b"1")  # to fork takes the system milliseconds
print("ready", flush=True)
while True:
    if os.fork() == 0:
        os._exit(0)
    os.wait()
"""


def test_who_forks_all_the_time_stands_still_once_it_is_stopped():
    """A fork that has begun goes on. A try that is given up, as on a busy machine, says nothing."""
    forking = subprocess.Popen([sys.executable, "-c", FORKS], stdout=subprocess.PIPE, start_new_session=True)
    stood = []
    try:
        assert forking.stdout.readline() == b"ready\n"
        deadline = time.monotonic() + 60
        while len(stood) < 20 and time.monotonic() < deadline:
            started = time.monotonic()
            stopped = sandbox.stop_all(forking.pid)
            is_given_up = time.monotonic() - started >= sandbox._STOP_S
            now = sandbox.descendants(forking.pid)
            stands = set(now) <= set(stopped) and {x for pid in now for x in states(pid)} <= set("TZ")
            if not is_given_up:
                stood.append(stands)
            sandbox.signal_all({*stopped, *now}, signal.SIGCONT)
            time.sleep(0.01)
        assert stood == [True] * 20
    finally:
        os.killpg(forking.pid, signal.SIGKILL)
        forking.wait()


def test_the_processor_time_of_what_runs_is_seen():
    spinning = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        before = sandbox.processor_seconds([spinning.pid])
        deadline = time.monotonic() + 60
        while sandbox.processor_seconds([spinning.pid]) - before < 0.02 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert sandbox.processor_seconds([spinning.pid]) - before >= 0.02
    finally:
        spinning.kill()
        spinning.wait()
