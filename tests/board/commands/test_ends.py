"""How commands end: on full disks, in odd terminals, by signals; and what a person on a terminal sees."""

from __future__ import annotations

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from leaderboard.cli import app

KBL = [sys.executable, "-m", "leaderboard"]


def test_a_full_disk_behind_standard_output_is_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*KBL, "problems", "list"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )

    last = done.stderr.splitlines()[-1]
    assert (2, True) == (done.returncode, last.startswith("error: standard output")), done.stderr
    assert "Traceback" not in done.stderr


def test_a_path_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    folder = tmp_path / "file/demo"
    done = subprocess.run([*KBL, "demo", "--folder", folder], capture_output=True, text=True, check=False)

    [said] = done.stderr.splitlines()
    assert (2, True) == (done.returncode, said.startswith(f"error: {folder}")), said


@pytest.mark.parametrize("after_s", [0.05, 0.1, 0.2, 0.4])
def test_ctrl_c_while_a_command_loads_is_no_traceback(after_s: float) -> None:
    loading = (
        "import os, signal; from leaderboard import __main__ as kbl; was = signal.signal\n"
        "signal.signal = lambda *asked: (was(*asked), setattr(signal, 'signal', was), os.write(1, b'.'))[0]\n"
        "kbl.run()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", loading, "problems", "list"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.read(1)  # the command itself has begun
    time.sleep(after_s)
    process.send_signal(signal.SIGINT)

    assert "File" not in process.communicate()[1]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    "when", ["cli.app = {signal}", "cli.app = lambda **_: setattr(sys.stdout, 'flush', {signal})"]
)
def test_a_signal_while_options_are_read_or_output_is_written_is_no_traceback(
    when: str, number: signal.Signals
) -> None:
    once = "vars(sys.stdout).pop('flush', None)"
    come = f"lambda **_: ({once}, os.kill(os.getpid(), {int(number)}), time.sleep(60))"
    program = f"import os, sys, time; from leaderboard import cli; {when.format(signal=come)}; cli.run()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert (128 + number, "") == (done.returncode, done.stderr)


@pytest.mark.parametrize(
    "command", [["--help"], ["evaluate", "--help"], ["problems", "list", "--level", "9"]]
)
def test_what_a_terminal_cannot_show_is_escaped(command: list[str]) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"}
    done = subprocess.run([*KBL, *command], capture_output=True, text=True, check=False, env=environment)

    assert done.returncode in (0, 2)
    assert "Traceback" not in done.stderr


def test_a_reader_that_goes_away_is_no_traceback() -> None:
    process = subprocess.Popen(
        [*KBL, "problems", "list"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()

    assert "Traceback" not in process.stderr.read()
    assert 0 != process.wait()


def test_a_standard_output_that_is_closed_is_no_traceback() -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", f"{' '.join(KBL)} problems list >&-"],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert (0, False) == (done.returncode, "Traceback" in done.stderr), done.stderr


def test_nobody_is_asked_where_standard_input_is_closed(tmp_path: Path) -> None:
    (tmp_path / "level_1_problem_19_sample_0_kernel.py").write_text("class ModelNew: ...")
    verb = f"{' '.join(KBL)} pack {tmp_path / 'new.json'} {tmp_path} <&-"
    done = subprocess.run(["/bin/sh", "-c", verb], capture_output=True, text=True, check=False)
    said = "error: --display-name is required where nobody can be asked\n"
    assert (2, said) == (done.returncode, done.stderr)


def test_a_full_disk_is_one_line_where_standard_output_is_closed() -> None:
    failing = "cli.app = lambda **_: print('x', file=open('/dev/full', 'w'), flush=True)"
    program = f"import sys; sys.stdout = None; from leaderboard import cli; {failing}; cli.run()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    last = done.stderr.splitlines()[-1]
    assert (2, True) == (done.returncode, last.startswith("error: standard output")), done.stderr


ENTRY = {"metadata": {"display_name": "x"}, "kernels": {"level_1_problem_19_sample_0": "#" * 4000}}


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an entry whose kernel is no Python, and its work file."""
    folder = tmp_path_factory.mktemp("judged")
    wrong = {**ENTRY, "kernels": {"level_1_problem_19_sample_0": "x = "}}
    (folder / "wrong.json").write_text(json.dumps(wrong))
    command = [*KBL, "evaluate", "wrong.json", "--device", "cpu", "--work", "w"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    [path] = folder.glob("w/*/wrong.json")
    path.rename(folder / "work.json")
    return folder


@pytest.mark.parametrize(
    ("verb", "named"),
    [
        (["pack", "new.json", "runs/entry_level1", "--display-name", "x"], "new.json"),
        (["unpack", "entry.json", "--runs", "new"], "new"),
        (["site", "build", "--data", "data", "--submissions", "none", "--out", "new/site"], "new/site"),
        (["analyze", "work.json", "--plot", "new.svg"], "new.svg"),
        (["record", "work.json", "--submissions", ".", "--data", "new"], "new/results"),
        (["export", "board", "--data", "data", "--submissions", "none", "--out", "new"], "new/data/kernels"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_file_that_finds_no_room_is_named(
    tmp_path: Path, request: pytest.FixtureRequest, verb: list[str], named: str
) -> None:
    (tmp_path / "entry.json").write_text(json.dumps(ENTRY))
    room = 60_000 if "site" in verb else 1000  # a template's bytecode, in TMPDIR, needs more
    program = (
        f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({room}, {room}))\n"
        "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        f"import sys; sys.argv = ['kbl', *{verb!r}]\n"
        "sys.dont_write_bytecode = True\n"  # it would be cut off, and break whoever loads it next
        "from leaderboard.cli import run; run()\n"
    )
    (tmp_path / "data").mkdir()
    if "pack" in verb:
        subprocess.run([*KBL, "unpack", "entry.json"], cwd=tmp_path, check=True, capture_output=True)
    if "work.json" in verb:
        shutil.copytree(request.getfixturevalue("judged"), tmp_path, dirs_exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert 2 == done.returncode, done.stderr
    assert f"error: {named}" in done.stderr and "cannot be written" in done.stderr
    assert "Traceback" not in done.stderr
    assert not [path for path in tmp_path.rglob("*") if path.name.endswith((".partial", ".new"))]
    assert not (tmp_path / named).is_file()


def test_a_folder_or_nothing_where_a_file_is_asked_for_is_said_in_plain_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for verb in (["evaluate", "--device", "cpu"], ["plan"], ["record"], ["replay"], ["unpack"]):
        rest = ["level_1_problem_19_sample_0", "--device", "cpu"] if verb == ["replay"] else []
        for name, words in ((".", "it is a folder"), ("none.json", "there is no such file")):
            done = CliRunner().invoke(app, [*verb, name, *rest])
            assert f"error: {name}: {words}" in done.output, (verb, done.output)
            assert "Errno" not in done.output


def test_on_a_terminal_each_verdict_stays_a_line_with_its_whole_reason(tmp_path: Path) -> None:
    """As in a pipe: the bar below may be cut and overwritten, the lines may not."""
    program = (
        "from kernel_evaluator.problems.jobs import Job, unmeasured_row\n"
        "from kernel_evaluator.problems.problem_set import ProblemSet\n"
        "from kernel_evaluator.records.keys import KernelKey\n"
        "from kernel_evaluator.records.rows import Failure, Status\n"
        "from leaderboard.show.progress import Reporter\n"
        "reporter = Reporter()\n"
        "with reporter.over(2):\n"
        "    for number in (19, 20):\n"
        "        job = Job(key=KernelKey(1, number), source='', problem=ProblemSet().load(1, number))\n"
        "        why = Failure(name='WrongOutput', message='expected 1 ' + 'and so on ' * 9)\n"
        "        reporter.show(unmeasured_row(job, Status.MISMATCH, why))\n"
    )
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": "60", "CI": ""}
    with subprocess.Popen([sys.executable, "-c", program], stderr=theirs, env=environment) as process:
        os.close(theirs)
        seen = b""
        while chunk := _read(ours):
            seen += chunk
    os.close(ours)

    assert 0 == process.returncode
    text = seen.decode()
    for number, problem in enumerate((19, 20), 1):
        assert (
            f"[{number}/2] 1/{problem} mismatch: WrongOutput: expected 1 {('and so on ' * 9).strip()}\r\n"
            in text
        )
    assert "2/2" in text.rpartition("\n[")[2]


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 4096)
    except OSError:  # what Linux says at the end of a terminal
        return b""
