"""What is recorded of the walls and of killed commands: nothing was wrong, and it is as much as the pages say."""

import json
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
WALLS = {
    "ipc",
    "mount",
    "network",
    "no-new-privileges",
    "pid",
    "root",
    "seccomp",
    "shared-memory",
    "uid",
    "uts",
}


def record(name):
    return json.loads((RESULTS / f"{name}.json").read_text("utf-8"))


def test_all_walls_stood_under_gvisor_and_25_cases_got_what_they_may():
    found = record("gvisor")
    assert found["wrong"] == []
    assert (len(found["cases"]), set(found["walls"])) == (25, WALLS)
    assert (found["tests"]["passed"] > 70, "failed" in found["tests"]) == (True, False)
    elsewhere = {case["id"]: case for case in record("redteam-CPU")["cases"] if not case.get("off")}
    others = {name for name, status in found["cases"].items() if status not in elsewhere[name]["expect"]}
    assert others == {"x19", "e78"}
    assert found["cases"]["x19"] == "timeout"


def test_every_reference_is_correct_behind_every_wall():
    found = record("references-CPU")
    assert found["statuses"] == {"correct": 250}
    assert [set(walls.split()) for walls in found["isolation"]] == [WALLS]
    median = {walls: quartiles[1] for walls, quartiles in found["start_ms_quartiles"].items()}
    said = f"Raising them takes {median['all walls']:.0f} ms a process"
    assert said in (ROOT / "SECURITY.md").read_text("utf-8")


def test_killed_commands_lost_nothing_and_left_nothing():
    found = record("interruptions")
    assert (found["killed"], found["wrong"]) == (200, 0)
    assert {"SIGKILL", "SIGTERM", "SIGINT"} == {
        name for kind in found["kinds"].values() for name in kind["signals"]
    }


def test_decision_45_says_what_honest_kernels_called():
    found = record("system-calls-cpu")
    said = (ROOT / "docs/decisions/0045-walls-are-tried.md").read_text("utf-8")
    told = f"{len(found['calls'])} calls by {found['processes']:,} processes of {found['verdicts']['correct']} kernels"
    assert told in " ".join(said.split())
