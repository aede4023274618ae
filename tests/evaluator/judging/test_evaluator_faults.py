"""Kernels that are wrong or fail, judged one after the other: each gets its own verdict, the next is unharmed.

All run in one evaluation, a right kernel after each. Forged frames, walls and signals have their own files.
"""

import os
from pathlib import Path

import pytest
from evaluating import RIGHT, command_lines, jobs_of, judge, kernel, own_processes

LINGERING = f"98765.{os.getpid():07}"
"""How long the processes sleep that kernels leave behind: no other process of this machine has this number."""

FORGED = "forged-by-a-kernel.json"

SPRAY = """
import struct
DONE = struct.pack("<dqII", 0.0, 0, 0, 0)
for descriptor in range(3, 256):
    for sequence in range(64):
        try:
            os.write(descriptor, struct.pack("<IIQ", 100, len(DONE), sequence) + DONE)
        except OSError:
            break
"""

FORGED_ROWS = """
for descriptor in (0, 1, 2):
    try:
        os.write(descriptor, b'{"row": {"status": "correct", "speedup": 99.0}}' + bytes([10]))
    except OSError:
        pass
"""

FORGED_FILES = f"""
for folder in ["/", "/tmp", "/var/tmp", "/dev/shm", "/root", os.getcwd(), {str(Path.cwd())!r}, *sys.path]:
    try:
        open(os.path.join(folder, {FORGED!r}), "w").write('{{"status": "correct"}}')
    except OSError:
        pass
"""

KILL = """
def kill_all():
    for pid in {os.getppid(), 1, -1, *(int(name) for name in os.listdir("/proc") if name.isdigit())}:
        try:
            if pid not in (0, os.getpid()):
                os.kill(pid, 9)
        except OSError:
            pass
"""

LINGER = f"""
import subprocess
for _ in range(3):
    subprocess.Popen(["sleep", "{LINGERING}"], start_new_session=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execvp("sleep", ["sleep", "{LINGERING}"])
    os._exit(0)
"""

FORKS = (
    "while True:",  # until the limit of processes ends it; spawning is quicker than forking all of torch
    f"    os.posix_spawnp('sleep', ['sleep', '{LINGERING}'], {{}})",
)

FILL = "kept = [torch.ones(1 << 24) for _ in range(1000)]"

CASES = {
    "a wrong result": (kernel("return self.right(x) * 1.001"), "mismatch", "WrongOutput"),
    "zeros": (kernel("return torch.zeros_like(x)"), "mismatch", "WrongOutput"),
    "another dtype": (kernel("return self.right(x).double()"), "mismatch", "WrongType"),
    "another shape": (kernel("return self.right(x)[None]"), "mismatch", "WrongType"),
    "another structure": (kernel("return (self.right(x),)"), "mismatch", "WrongStructure"),
    "no tensor": (kernel("return 1.0"), "mismatch", "WrongType"),
    "overlapping elements": (kernel("return self.right(x)[:1].expand(16, 64)"), "mismatch", "WrongType"),
    "relu left out": (kernel("return self.norm(x)"), "fragile", "WrongOutput"),
    "gamma and beta left out": (
        kernel("return F.layer_norm(x.clamp(min=0), (64,))"),
        "fragile",
        "WrongOutput",
    ),
    "an input written to": (kernel("y = self.right(x)", "x.add_(1)", "return y"), "rejected", "InputChanged"),
    "an input written to, and another dtype": (
        kernel("return x.add_(1).double()"),
        "rejected",
        "InputChanged",
    ),
    "its input for an output": (kernel("return x.relu_()"), "mismatch", "OutputInInput"),
    "an error in forward": (kernel("raise ValueError('no')"), "runtime_error", "ValueError"),
    "an error in __init__": (kernel(init="raise ValueError('no')"), "runtime_error", "ValueError"),
    "an error without a message": (kernel("raise ValueError"), "runtime_error", "ValueError"),
    "an error without a message in a library": (
        kernel("queue.Queue().get_nowait()", head="import queue"),
        "runtime_error",
        "Empty",
    ),
    "an error of a long name": (
        kernel("raise Odd", head="Odd = type('Odd' * 10_000, (Exception,), {})"),
        "runtime_error",
        "",
    ),
    "a build's error that UTF-8 cannot hold": (
        kernel(
            head="# cpp_extension\nraise RuntimeError('Error building extension: half \\ud800 of a pair')"
        ),
        "compile_error",
        "BuildFailed",
    ),
    "an error that has no text": (
        kernel("raise Odd", head="class Odd(Exception):\n    def __str__(self):\n        raise self"),
        "runtime_error",
        "Odd",
    ),
    "a line that is closed": (
        kernel("os.closerange(3, 256)", "time.sleep(60)"),
        "runtime_error",
        "HungUp",
    ),
    "exit inside forward": (kernel("os._exit(0)"), "runtime_error", "ProcessDied"),
    "sys.exit inside forward": (kernel("sys.exit(0)"), "runtime_error", "SystemExit"),
    "exit at import": (kernel(head="os._exit(0)"), "runtime_error", "ProcessDied"),
    "sys.exit at import": (kernel(head="sys.exit(0)"), "compile_error", "SystemExit"),
    "a syntax error": ("class ModelNew(:\n", "compile_error", "SyntaxError"),
    "no ModelNew": ("import torch\n", "compile_error", "AttributeError"),
    "an empty file": ("", "compile_error", "AttributeError"),
    "a compile error that speaks of a lock": (
        kernel(head="raise RuntimeError('error: No such file or directory: block.h, could not lock')"),
        "compile_error",
        "RuntimeError",
    ),
    "host memory filled": (kernel(FILL), "out_of_memory", ""),
    "forged answers on every descriptor": (
        kernel("return torch.zeros_like(x)", head=SPRAY),
        "rejected",
        "ProtocolViolation",
    ),
    "forged rows on its output": (
        kernel("return torch.zeros_like(x)", head=FORGED_ROWS),
        "mismatch",
        "WrongOutput",
    ),
    "forged files": (kernel("return torch.zeros_like(x)", head=FORGED_FILES), "mismatch", "WrongOutput"),
    "signals to everything": (kernel("kill_all()", head=KILL), "correct", ""),
    "processes left behind": (kernel(head=LINGER), "correct", ""),
    "a fork bomb": (kernel(*FORKS), "runtime_error out_of_memory", "BlockingIOError OutOfMemory"),
    "death between two frames": (
        kernel(
            "threading.Timer(0.02, os._exit, (0,)).start()",
            "time.sleep(0)",
            head="import threading",
        ),
        "runtime_error",
        "ProcessDied",
    ),
}


@pytest.fixture(scope="module")
def there_before():
    """What earlier tests of this process keep running, such as a browser."""
    return own_processes()


@pytest.fixture(scope="module")
def rows(there_before):
    sources = [source for bad, _, _ in CASES.values() for source in (bad, RIGHT)]
    return judge(jobs_of(*sources), measure=False)


@pytest.mark.parametrize("case", CASES)
def test_a_fault_gets_its_own_verdict(rows, case):
    _, statuses, names = CASES[case]
    row = rows[2 * list(CASES).index(case)]
    said = f"{row.status} {row.failure}"
    assert row.status in statuses.split(), said
    assert not names or row.failure.name in names.split(), said


@pytest.mark.parametrize("case", CASES)
def test_the_kernel_after_it_is_unharmed(rows, case):
    row = rows[2 * list(CASES).index(case) + 1]
    assert (row.status, row.trials_passed, row.failure) == ("correct", 5, None)


def test_a_compile_error_keeps_its_text_whatever_it_says(rows):
    row = rows[2 * list(CASES).index("a compile error that speaks of a lock")]
    assert "No such file or directory: block.h, could not lock" in row.failure.message


@pytest.mark.parametrize(
    ("case", "text"),
    [
        ("an error without a message", "raise ValueError"),
        ("an error without a message in a library", "queue.Queue().get_nowait()"),
    ],
)
def test_an_error_without_a_message_is_told_by_the_line_of_the_kernel(rows, case, text):
    row = rows[2 * list(CASES).index(case)]
    line = CASES[case][0].splitlines().index(f"        {text}") + 1
    assert row.failure.message.splitlines()[0] == f"without a message, at line {line}: {text}"


def test_an_error_of_a_long_name_is_told_by_its_beginning(rows):
    row = rows[2 * list(CASES).index("an error of a long name")]
    assert row.failure.name.startswith("OddOdd")
    assert len(row.failure.name) <= 200


def test_what_utf8_cannot_hold_of_a_builds_error_is_replaced(rows):
    row = rows[2 * list(CASES).index("a build's error that UTF-8 cannot hold")]
    assert row.failure.log == "Error building extension: half ? of a pair"


def test_a_rejection_carries_the_numbers_that_prove_it(rows):
    evidence = rows[2 * list(CASES).index("relu left out")].evidence["counter_example"]
    assert evidence["distribution"] not in ("plain", "upstream")
    assert abs(float(evidence["expected"]) - float(evidence["found"])) > evidence["absolute"]


def test_nothing_that_a_kernel_started_or_wrote_is_left(rows, there_before):
    assert own_processes() - there_before == set()
    assert [line for line in command_lines() if LINGERING in line and "pytest" not in line] == []
    assert [
        p for f in ("/", "/tmp", "/var/tmp", "/dev/shm", "/root", ".") for p in Path(f).glob(FORGED)
    ] == []
