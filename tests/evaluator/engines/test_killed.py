"""What dies with whom: nothing that judges outlives who asked for it, and nothing is left in the folder for files."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from compiling import TINY
from evaluating import SOURCE, command, kernel
from free_ports import free_port
from kernel_evaluator.walls import sandbox

DEADLINE_S = 60


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A problem, and an entry for it that says in its log that it runs, and never ends."""
    (tmp_path / "problems/level1").mkdir(parents=True)
    (tmp_path / "problems/level1/1_Tiny.py").write_text(SOURCE)
    source = kernel("time.sleep(1000)", head="import time")
    entry = {"metadata": {"display_name": "x"}, "kernels": {"level_1_problem_1_sample_0": source}}
    (tmp_path / "entry.json").write_text(json.dumps(entry))
    (tmp_path / "temporary").mkdir()
    return tmp_path


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    environment = {
        **os.environ,
        "TMPDIR": str(folder / "temporary"),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-m", "leaderboard", *arguments]
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


@contextmanager
def ended(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    """Kill the process at the end, however the test goes."""
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def family_once_a_candidate_runs(process: subprocess.Popen[str]) -> set[int]:
    """Wait until a process in another namespace of pids is there: the candidate."""
    own = namespace_of(os.getpid())
    until = time.monotonic() + DEADLINE_S
    while time.monotonic() < until:
        assert process.poll() is None, process.communicate()
        family = sandbox.descendants(process.pid)
        if any(namespace_of(pid) not in ("", own) for pid in family):
            return set(family)
        time.sleep(0.05)
    raise AssertionError("no candidate was started")


def namespace_of(pid: int) -> str:
    try:
        return str(Path(f"/proc/{pid}/ns/pid").readlink())
    except OSError:
        return ""


def all_ended(family: set[int]) -> bool:
    until = time.monotonic() + DEADLINE_S
    while left := {
        pid for pid in family if "kernel_evaluator" in command(pid) or "leaderboard" in command(pid)
    }:
        if time.monotonic() > until:
            raise AssertionError(f"{[command(pid) for pid in left]} live on")
        time.sleep(0.05)
    return True


@pytest.mark.timeout(200)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_an_evaluation_that_ends_takes_all_it_started_along(folder: Path, number: signal.Signals) -> None:
    arguments = ("--device", "cpu", "--problems", "problems", "--timeout", "900")
    with ended(start(folder, "evaluate", "entry.json", *arguments)) as process:
        family = family_once_a_candidate_runs(process)
        process.send_signal(number)
        said = process.communicate(timeout=DEADLINE_S)[0]

    assert all_ended(family)
    assert [] == list((folder / "temporary").iterdir())
    assert "Traceback" not in said
    if number != signal.SIGKILL:
        assert 128 + number == process.returncode
        assert "what is finished is kept, and the same command continues" in said


@pytest.mark.timeout(200)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_what_ends_a_build_does_not_stand_back_itself(folder: Path, number: signal.Signals) -> None:
    source = TINY.replace("ext =", "time.sleep(1000)\next =") + kernel("pass")
    entry = {"metadata": {"display_name": "x"}, "kernels": {"level_1_problem_1_sample_0": source}}
    (folder / "entry.json").write_text(json.dumps(entry))
    arguments = ("--problems", "problems", "--cache", "cache", "--arch", "")
    with ended(start(folder, "build", "entry.json", *arguments)) as process:
        family = family_once_a_candidate_runs(process)
        own = namespace_of(os.getpid())
        [build] = (pid for pid in family if namespace_of(pid) not in ("", own))
        until = time.monotonic() + DEADLINE_S
        while os.sched_getscheduler(build) != os.SCHED_IDLE:
            assert time.monotonic() < until
            time.sleep(0.05)
        assert {os.SCHED_OTHER} == {os.sched_getscheduler(pid) for pid in family - {build}}
        process.send_signal(number)
        process.communicate(timeout=DEADLINE_S)

    assert all_ended(family)
    assert [] == list((folder / "temporary").iterdir())


@pytest.mark.timeout(200)
def test_a_server_that_is_killed_takes_all_it_started_along(folder: Path) -> None:
    httpx = pytest.importorskip("httpx")
    pytest.importorskip("fastapi")

    port = free_port()
    source = json.loads((folder / "entry.json").read_text())["kernels"]["level_1_problem_1_sample_0"]
    body = {"level": 1, "problem_id": 1, "source": source, "timeout_s": 500}
    arguments = ("--device", "cpu", "--port", str(port), "--problems", "problems")
    with ended(start(folder, "serve", *arguments)) as process:
        until = time.monotonic() + DEADLINE_S
        while time.monotonic() < until:
            assert process.poll() is None, process.communicate()
            try:
                answer = httpx.post(f"http://127.0.0.1:{port}/v1/judgements", json=body, timeout=60)
                break
            except httpx.TransportError:
                time.sleep(0.1)
        assert 202 == answer.status_code, answer.text
        family = family_once_a_candidate_runs(process)
        process.kill()

    assert all_ended(family)
    assert [] == list((folder / "temporary").iterdir())
