"""The demo's commands, from a small submission to a site, as a person would type them."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from leaderboard import demo
from leaderboard.cli import app
from leaderboard.files import ledger
from leaderboard.files.ledger import Spending
from leaderboard.files.notices import Notice, read_notices, write_notices
from leaderboard.files.struck import Strike, read_strikes, write_strikes

WRONG = "level_1_problem_23_sample_0"
"""One that needs no timing, so that a busy machine has a verdict on it too."""


@pytest.fixture
def small(tmp_path: Path, repository: Path) -> Path:
    source = (repository / f"examples/cpu-demo/{WRONG}.py").read_text("utf-8")
    path = tmp_path / "submissions/small.json"
    path.parent.mkdir()
    metadata = {"display_name": "Small", "baseline": True}  # as the demo's own is
    path.write_text(json.dumps({"metadata": metadata, "kernels": {WRONG: source}}), "utf-8")
    return path


def test_a_small_submission_goes_all_the_way_to_a_board(
    small: Path, tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository)
    folder, site = tmp_path / "demo", tmp_path / "site"
    demo.prepare(folder, tmp_path / "nothing recorded")

    statuses = {step.arguments[0]: demo.run(step) for step in demo.steps(folder, site, small)}

    assert {"validate": 0, "evaluate": 0, "record": 0, "standings": 0, "site": 0} == statuses
    recorded = json.loads((folder / "data/results/CPU-reduced/small.json").read_text("utf-8"))
    assert {WRONG: "mismatch"} == {row["key"]: row["status"] for row in recorded["rows"]}
    [picture] = re.findall('&lt;img src="([^"]+)"', (site / "index.html").read_text("utf-8"))
    assert (site / picture).is_file(), "what a page elsewhere would show of the board"


@pytest.mark.parametrize("on_the_path", [True, False])
def test_the_command_that_it_ends_with_can_be_typed_where_it_stands(
    tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch, on_the_path: bool
) -> None:
    script = tmp_path / "bin/kbl"
    script.parent.mkdir()
    script.touch(0o755)
    monkeypatch.chdir(repository)
    monkeypatch.setenv("PATH", str(script.parent) if on_the_path else str(tmp_path))
    monkeypatch.setattr(sys, "argv", [str(script), "demo"])
    monkeypatch.setattr(demo, "steps", lambda *_: ())

    said = CliRunner().invoke(app, ["demo", "--folder", str(tmp_path / "demo"), "--site", "there"]).output

    assert f"To see the board: {'kbl' if on_the_path else script} site serve --out there\n" in said


def test_elsewhere_the_demo_takes_the_submission_that_the_package_brings(
    tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    found = demo.prepare(tmp_path / "demo")

    assert found.read_bytes() == (repository / "submissions/cpu-demo.json").read_bytes()


def test_what_maintainers_struck_and_said_holds_on_the_demos_board_too(tmp_path: Path) -> None:
    strike = Strike(entry="mine", key=WRONG, kernel_sha256="0" * 64, day="2027-01-31", why="by a hole")
    notice = Notice(date=strike.day, entry=strike.entry, what="Struck", why=strike.why)
    spent = Spending(day=strike.day, run=1, entry=strike.entry, board="H100", usd=1.5)
    write_strikes(tmp_path / "data", [strike])
    write_notices(tmp_path / "data", [notice])
    ledger.write_month(tmp_path / "data", spent.month, (spent,))

    demo.prepare(tmp_path / "demo", tmp_path / "data")

    there = tmp_path / "demo/data"
    assert ((strike,), (notice,), (spent,)) == (
        read_strikes(there),
        read_notices(there),
        ledger.read_all(there),
    )


def test_the_demo_leaves_what_is_called_data_where_it_is(tmp_path: Path) -> None:
    for name in ("images/huge.bin", "results/H100/mine.json"):
        (tmp_path / "data" / name).parent.mkdir(parents=True)
        (tmp_path / "data" / name).write_text("{}")

    demo.prepare(tmp_path / "demo", tmp_path / "data")

    assert ["results"] == [path.name for path in (tmp_path / "demo/data").iterdir()]


@pytest.mark.parametrize(("status", "runs"), [(1, 5), (2, 2), (-9, 2)])
def test_the_demo_goes_on_where_a_kernel_has_no_verdict_and_ends_where_it_cannot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, runs: int
) -> None:
    monkeypatch.chdir(tmp_path)
    ran: list[str] = []

    def end(step: demo.Step) -> int:
        ran.append(step.arguments[0])
        return status if step.arguments[0] == "evaluate" else 0

    monkeypatch.setattr(demo, "run", end)
    assert (True, runs) == (CliRunner().invoke(app, ["demo"]).exit_code != 0, len(ran))
