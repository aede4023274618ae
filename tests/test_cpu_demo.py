"""The demo's submission: the packed file says what the readable sources say, and passes every check."""

from __future__ import annotations

import json
from pathlib import Path

from leaderboard.checks.report import validate_file
from leaderboard.files.submission import load


def test_the_packed_demo_equals_its_readable_sources(repository: Path) -> None:
    sources = sorted((repository / "examples/cpu-demo").glob("level_*.py"))

    packed = load(repository / "submissions/cpu-demo.json")

    assert {path.stem: path.read_text("utf-8") for path in sources} == {
        str(key): source for key, source in packed.kernels.items()
    }
    assert json.loads((repository / "examples/cpu-demo/metadata.json").read_text("utf-8")) == packed.metadata


def test_the_packed_demo_is_a_fine_submission_that_is_not_ranked(repository: Path) -> None:
    report = validate_file(repository / "submissions/cpu-demo.json")

    assert (True, 15) == (report.is_fine, report.kernels)
    assert load(report.path).is_baseline
