"""What `kbl doctor` finds on this machine, and what it advises where something is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from kernel_evaluator.engines.epoch import ARCHIVES
from kernel_evaluator.problems.problem_set import SET_VERSION, ProblemSet

from leaderboard.doctor import Diagnosis, Need, abilities, examine


def finding(need: Need, *, ok: bool) -> Diagnosis:
    return Diagnosis(name="x", found="", ok=ok, need=need, mend="do this")


def test_every_finding_is_printed_and_the_demo_runs_where_the_tests_run() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "leaderboard", "doctor"],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )

    assert (0, "") == (done.returncode, done.stderr)
    for name in ("Python", "torch", "CUDA device", "nvcc", "ninja", "C++ compiler", "walls", "free disk"):
        assert any(line[8:].startswith(name) for line in done.stdout.splitlines()), name
    assert (
        f"KernelBench {SET_VERSION}, 270 of 270 problems, digest {ProblemSet().sha256()[:12]}" in done.stdout
    )
    assert "yes evaluate on the CPU at reduced sizes" in done.stdout


def test_a_missing_tool_is_named_with_the_package_that_brings_it() -> None:
    environment = {**os.environ, "PATH": "/nonexistent"}
    done = subprocess.run(
        [sys.executable, "-m", "leaderboard", "doctor"],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
        env=environment,
    )

    assert 1 == done.returncode
    assert "apt-get install g++" in done.stdout
    assert "apt-get install chromium" in done.stdout
    assert "no  evaluate on the CPU" in done.stdout


def test_what_is_missing_is_always_followed_by_a_mend() -> None:
    assert all(found.mend for found in examine() if not found.ok)


def test_a_missing_gpu_leaves_the_cpu_usable() -> None:
    able = list(abilities([finding(Need.ALL, ok=True), finding(Need.GPU, ok=False)]).values())

    assert [True, True, False, True] == able


def test_a_missing_compiler_rules_out_both_kinds_of_evaluation() -> None:
    assert [True, False, False, True] == list(abilities([finding(Need.CPU, ok=False)]).values())


def test_of_headers_their_origin_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unpacked as the image does it, cloned with git as people do, or copied from who knows where."""
    headers = tmp_path / "package" / "headers"
    headers.mkdir(parents=True)
    monkeypatch.setenv(ARCHIVES[0].variable, str(headers))

    def told() -> str:
        return next(found.found for found in examine() if found.name == ARCHIVES[0].name)

    assert told() == f"of unknown origin, in {headers}"
    git = ["git", "-C", str(headers), "-c", "user.name=x", "-c", "user.email=x@example.org"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    commit = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout
    assert told() == f"{commit[:12]}, in {headers}"
    (headers.parent / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: st_attn\nVersion: 0.0.6\n")
    assert told() == f"from st_attn 0.0.6, in {headers}"
