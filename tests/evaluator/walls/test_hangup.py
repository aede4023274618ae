"""Who loads what it needs goes with whoever asked for it."""

import subprocess
import sys

LOADING = """
import sys, threading, time
from kernel_evaluator.walls.hangup import ended_by_hangup
with ended_by_hangup(0, lambda: print("tidy", flush=True)):
    print("loads", flush=True)
    {loads}
print(threading.active_count(), flush=True)
"""


def start(loads):
    return subprocess.Popen(
        [sys.executable, "-c", LOADING.format(loads=loads)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_a_process_ends_tidily_where_its_asker_hangs_up_meanwhile():
    process = start("time.sleep(600)")
    assert process.stdout.readline() == "loads\n"
    process.stdin.close()
    assert (process.wait(60), process.stdout.read()) == (1, "tidy\n")
    process.stdout.close()


def test_what_was_sent_before_is_no_hanging_up_and_no_thread_is_left():
    process = start("sys.stdin.readline(); time.sleep(0.1)")
    process.stdin.write("a line\nand more\n")
    process.stdin.flush()
    assert process.stdout.read() == "loads\n1\n"
    process.communicate()
    assert process.returncode == 0
