"""The demo's commands, from a small submission to a site, as a person would type them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from leaderboard import demo

SOURCES = ("level_1_problem_23_sample_0", "level_1_problem_25_sample_0")


@pytest.fixture
def small(tmp_path: Path, repository: Path) -> Path:
    folder = repository / "examples/cpu-demo"
    kernels = {name: (folder / f"{name}.py").read_text("utf-8") for name in SOURCES}
    path = tmp_path / "submissions/small.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"metadata": {"display_name": "Small"}, "kernels": kernels}), "utf-8")
    return path


def test_a_small_submission_goes_all_the_way_to_a_board(
    small: Path, tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository)
    folder, site = tmp_path / "demo", tmp_path / "site"
    demo.prepare(folder, tmp_path / "nothing recorded")

    statuses = {}
    for step in demo.steps(folder, site, small):
        for _ in range(5):  # it is to be repeated where the host was too busy for a verdict
            statuses[step.arguments[0]] = demo.run(step)
            if statuses[step.arguments[0]] != 1 or step.arguments[0] != "evaluate":
                break

    assert {"validate": 0, "evaluate": 0, "record": 0, "standings": 0, "site": 0} == statuses
    recorded = json.loads((folder / "data/results/CPU-reduced/small.json").read_text("utf-8"))
    found = {row["key"]: row["status"] for row in recorded["rows"]}
    assert "mismatch" == found["level_1_problem_23_sample_0"]
    assert found["level_1_problem_25_sample_0"] in ("correct", "quarantined")
    assert (site / "index.html").is_file()


def test_elsewhere_the_demo_takes_the_submission_that_the_package_brings(
    tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    found = demo.prepare(tmp_path / "demo")

    assert found.read_bytes() == (repository / "submissions/cpu-demo.json").read_bytes()
