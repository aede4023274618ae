"""How commands end that are given a file which cannot be read: all alike, with 2 and a line that names it."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commandline import kbl

KERNEL = "level_1_problem_19_sample_0"
FILE = "entry.json"

VERBS = [
    "validate FILE",
    "plan FILE",
    "build FILE",
    "evaluate FILE --device cpu",
    "record FILE",
    "audit FILE --device cpu",
    f"replay FILE {KERNEL} --device cpu",
    "pack new.json FILE --display-name x",
    "unpack FILE",
    "analyze FILE",
    "analyze measured.json --against eager=FILE",
    "compare FILE measured.json",
    "compare measured.json FILE",
    "serve --device cpu --keys FILE",
    "export conversations runs --out out --result FILE",
    "baseline import --source x --gpu H100 --eager FILE",
    "baseline from-result FILE",
    "baseline show FILE",
]
JUDGE_CONTENT = ("validate", "record")
"""What a file holds is what these are asked about: they could read it, and say what is wrong."""


def no_file(_: Path, __: pytest.MonkeyPatch) -> None:
    """There is none."""


def a_folder(path: Path, _: pytest.MonkeyPatch) -> None:
    path.mkdir()


def no_permission(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_text("{}")
    opened: Any = Path.open

    def refuse(self: Path, *arguments: Any, **named: Any) -> Any:  # root may read whatever its mode is
        if self.name == FILE:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self))
        return opened(self, *arguments, **named)

    monkeypatch.setattr(Path, "open", refuse)


def no_text(path: Path, _: pytest.MonkeyPatch) -> None:
    path.write_bytes(b'{"metadata": "\xe9"}')


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("make", [no_file, a_folder, no_permission, no_text])
def test_a_file_that_cannot_be_read_ends_every_command_alike(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    verb: str,
    make: Callable[[Path, pytest.MonkeyPatch], None],
) -> None:
    recorded = Path(__file__).resolve().parents[3] / "data/results/H100/first-light.json"
    (tmp_path / "measured.json").symlink_to(recorded)
    (tmp_path / "runs").mkdir()
    monkeypatch.chdir(tmp_path)
    make(tmp_path / FILE, monkeypatch)

    done = kbl(*verb.replace("FILE", FILE).split())

    judged = make is no_text and verb.startswith(JUDGE_CONTENT)
    assert (1 if judged else 2) == done.returncode, done
    [said] = [line for line in (done.stdout + done.stderr).splitlines() if FILE in line]
    assert said.startswith((FILE, f"error: {FILE}")), said
    assert 1 == said.count(FILE), said


@pytest.mark.parametrize("verb", ["analyze FILE", "compare FILE FILE", "audit FILE", f"replay FILE {KERNEL}"])
@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[]", "not a result file: it must hold an object, got list"),
        (
            '{"metadata": {}, "kernels": {}}',
            "not a result file but a submission; kbl evaluate makes a result",
        ),
    ],
)
def test_what_is_no_result_is_said_to_be_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str, content: str, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(FILE).write_text(content)
    done = kbl(*verb.replace("FILE", FILE).split())
    assert (2, True) == (done.returncode, f"error: {FILE}: {words}" in done.stderr), done.stderr


@pytest.mark.parametrize("verb", ["validate", "plan", "evaluate --device cpu"])
def test_a_kernel_in_place_of_a_submission_is_told_how_to_become_one(tmp_path: Path, verb: str) -> None:
    (tmp_path / "kernel.py").write_text("class ModelNew: ...")
    done = kbl(*verb.split(), tmp_path / "kernel.py")
    assert "kbl pack makes one of kernels" in done.stdout + done.stderr
