"""What is malformed, sent to all that reads strangers' files; `benchmarks/malformed.py` sends a hundred times as much."""

import json
import random
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import malformed  # noqa: E402

NUMBERS = {"submissions": 300, "work_files": 25, "requests": 60}


@pytest.mark.parametrize("name", NUMBERS)
def test_nothing_crashes_hangs_or_is_judged_differently_in_two_places(name: str) -> None:
    if name == "submissions" and not shutil.which("node"):
        pytest.skip("node, which runs the site's check, is not installed")
    if name == "requests":
        pytest.importorskip("fastapi")
    count = malformed.PARTS[name][0](NUMBERS[name], random.Random("suite"))
    assert count.wrong == []
    assert sum(count.answers.values()) == NUMBERS[name]


def test_the_recorded_run_sent_enough_and_found_nothing() -> None:
    recorded = json.loads(malformed.RESULTS.read_text("utf-8"))
    for name, (_, number) in malformed.PARTS.items():
        assert recorded[name]["sent"] >= number
        assert recorded[name]["wrong"] == []
