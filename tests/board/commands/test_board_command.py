"""`kbl board`: what it lists, and which files of a checkout it writes."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from leaderboard.cli import app
from leaderboard.files.banned import read_bans

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = ROOT / "tests/fake_engine.py"


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".github").mkdir()
    shutil.copy(ROOT / ".github/evaluation.toml", tmp_path / ".github")
    recorded = tmp_path / "data/results/H100"
    recorded.mkdir(parents=True)
    for entry in ("first-light", "founders-cuda", "founders-triton"):  # reading all takes seconds
        (recorded / f"{entry}.json").symlink_to(ROOT / "data/results/H100" / f"{entry}.json")
    (tmp_path / "submissions").symlink_to(ROOT / "submissions")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def told(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["board", *arguments])
    assert code == result.exit_code, result.output
    return result.output


def test_an_appeal_says_what_it_costs_and_how_to_do_it_here(checkout: Path) -> None:
    said = told("again", "founders-triton")

    assert "kbl evaluate submissions/founders-triton.json" in said
    assert "about $" in said
    assert "1 entries" in said


def test_the_command_for_an_appeal_judges_what_was_evaluated_here_before(checkout: Path) -> None:
    def evaluate(*options: str) -> str:
        command = [sys.executable, PROGRAM, "evaluate", "submissions/first-light.json", *options]
        command += ["--engine", "fake", "--device", "cuda"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    evaluate("--data", "nothing/recorded")
    _, _, options = told("again", "first-light").partition("submissions/first-light.json ")
    assert "16 judged now, 0 still good" in evaluate(*options.splitlines()[0].split())


def test_what_is_due_keeps_within_the_dollars(checkout: Path) -> None:
    assert "0 entries, about $0.00" in told("due", "--usd", "0")


def test_an_unknown_entry_or_board_is_named(checkout: Path) -> None:
    assert "no merged entry nobody" in told("again", "nobody", code=2)
    assert "no board has the name 'B200'" in told("due", "--board", "B200", code=2)


def test_a_board_for_another_precision_is_refused_with_the_one_that_fits(checkout: Path) -> None:
    said = told("again", "founders-cuda", "--board", "H100-bf16", code=2)

    assert "founders-cuda is for boards of fp32 (metadata.precision), and H100-bf16 is one of bf16" in said


def test_a_second_look_at_an_unknown_board_names_the_boards(checkout: Path) -> None:
    assert "there are 'H100', 'H100-bf16'" in told("second-look", "--board", "FOO", code=2)


@pytest.mark.parametrize("verb", [["due"], ["again", "founders-cuda"], ["second-look"]])
def test_a_folder_in_place_of_a_result_is_named(checkout: Path, verb: list[str]) -> None:
    (checkout / "data/results/H100/dir.json").mkdir()

    assert "dir.json: it is a folder, where a file is asked for" in told(*verb, code=2)


def test_a_ban_of_nobody_is_refused(checkout: Path) -> None:
    assert "got -4" in told("ban", "bob", "--id", "-4", "--reason", "x", code=2)
    assert not (checkout / ".github/banned.toml").exists()


def test_a_ban_is_written_where_the_gate_reads_it(checkout: Path) -> None:
    told("ban", "alice", "--id", "7", "--reason", "copied kernels")
    assert [7] == [ban.id for ban in read_bans(checkout / ".github/banned.toml")]

    assert "banned already" in told("ban", "alice", "--id", "7", "--reason", "again", code=2)
    told("unban", "--id", "7")
    assert () == read_bans(checkout / ".github/banned.toml")
