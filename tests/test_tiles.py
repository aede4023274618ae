"""Kernels that are tried before they are judged: each tile has a line, whatever the others did."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

DRAFT = f"""
import sys
sys.path.insert(0, {str(ROOT / "KernelBench/level3")!r})
from importlib import import_module
TILE = {{"factor": 1}}
class ModelNew(import_module("4_LeNet5").Model):
    def forward(self, x):
        if TILE["factor"] == 0:
            raise ValueError("too much shared memory")
        return super().forward(x) * TILE["factor"]
"""


def test_each_tile_has_its_time_and_its_error_and_one_that_fails_costs_no_other(tmp_path: Path) -> None:
    (tmp_path / "level_3_problem_4_sample_0.py").write_text(DRAFT)
    tiles = [{"factor": 1}, {"factor": 0}, {"factor": 2}]
    (tmp_path / "level_3_problem_4_sample_0.tiles.json").write_text(json.dumps(tiles))
    (tmp_path / "level_3_problem_4_sample_0.sizes.txt").write_text("batch_size = 8\n")
    script, out = ROOT / "benchmarks/tiles.py", tmp_path / "tiles.jsonl"
    options = ("--folder", tmp_path, "--out", out, "--device", "cpu", "--repeats", "1")
    done = subprocess.run([sys.executable, script, *options], capture_output=True, text=True, check=False)
    lines = {line["at"]: line for line in map(json.loads, out.read_text().splitlines())}
    assert (done.returncode, sorted(lines)) == (1, [0, 1, 2]), done.stderr
    assert lines[1]["failed"] == "ValueError: too much shared memory"
    assert (lines[0]["worst"], lines[0]["tile"]) == (0, {"factor": 1})
    assert lines[2]["worst"] > 10
    assert min(lines[at][time] for at in (0, 2) for time in ("ms", "reference_ms")) > 0
    assert "too much shared memory" in done.stdout
    others = [
        sys.executable,
        script,
        "--folder",
        tmp_path,
        "--out",
        tmp_path / "others.jsonl",
        "--part",
        "1/2",
    ]
    done = subprocess.run(others, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "0 tiles are left\n"), "one draft is the first of two shares"


def join(
    folder: Path,
    *tried: tuple[str, dict[str, int], dict[str, object]],
    judged: Path | None = None,
    options: tuple[str, ...] = (),
) -> str:
    """Have drafts join founders-triton in `joined` below the folder; what the command says."""
    lines = [{"kernel": key, "tile": tile, "reference_ms": 2.5, **said} for key, tile, said in tried]
    (folder / "tiles.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    for key, _, _ in tried:
        (folder / f"{key}.py").write_text(f'# {key}\nTILE = {{\n    "BLOCK": 9,\n}}\n')
    command = [
        sys.executable,
        ROOT / "benchmarks/join.py",
        "--tiles",
        folder / "tiles.jsonl",
        "--folder",
        folder,
        "--board",
        "H200",
    ]
    command += ["--into", folder / "joined", *(["--judged", judged] if judged else []), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_drafts_that_won_join_their_entry_with_their_fastest_right_tile(tmp_path: Path) -> None:
    said = join(
        tmp_path,
        ("level_4_problem_1_sample_0", {"BLOCK": 1}, {"worst": 0.1, "ms": 2.0}),
        ("level_4_problem_1_sample_1", {"BLOCK": 2}, {"worst": 0.1, "ms": 1.0}),
        ("level_4_problem_1_sample_1", {"BLOCK": 3}, {"worst": 1.7, "ms": 0.5}),
        ("level_4_problem_2_sample_0", {"BLOCK": 4}, {"worst": 0.1, "ms": 3.0}),
        ("level_4_problem_3_sample_0", {"BLOCK": 5}, {"failed": "OutOfResources"}),
    )
    assert said.startswith("joined: level_4_problem_1_sample_0\n")
    joined = json.loads((tmp_path / "joined/founders-triton.json").read_text("utf-8"))
    new = '# level_4_problem_1_sample_1\nTILE = {"BLOCK": 2}\n'
    own = json.loads((ROOT / "submissions/founders-triton.json").read_text("utf-8"))
    assert joined["kernels"] == own["kernels"] | {"level_4_problem_1_sample_0": new}
    assert joined["metadata"] == own["metadata"]
    folder = tmp_path / "joined/founders-triton"
    assert {path.stem: path.read_text("utf-8") for path in folder.glob("*.py")} == joined["kernels"]


def test_a_draft_that_is_wrong_here_joins_where_that_is_asked_for(tmp_path: Path) -> None:
    tried = ("level_4_problem_1_sample_0", {"BLOCK": 1}, {"worst": 40.0, "ms": 1.0})
    assert join(tmp_path, tried).startswith("joined: none\n")
    said = join(tmp_path, tried, options=("--most-worst", "100"))
    assert said.startswith("joined: level_4_problem_1_sample_0\n")


def test_a_draft_takes_the_place_of_a_kernel_that_is_slower_by_the_record(tmp_path: Path) -> None:
    recorded = json.loads((ROOT / "data/results/H200/founders-triton.json").read_text("utf-8"))["rows"]
    faster, slower = (
        next(row for row in recorded if row["status"] == "correct" and row["key"].startswith(level))
        for level in ("level_1", "level_2")
    )
    said = join(
        tmp_path,
        (faster["key"], {"BLOCK": 1}, {"worst": 0.1, "ms": 2.5 / (faster["speedup"] * 1.1)}),
        (slower["key"], {"BLOCK": 2}, {"worst": 0.1, "ms": 2.5 / (slower["speedup"] * 0.9)}),
    )
    assert said.startswith(f"joined: {faster['key']}\n")
    joined = json.loads((tmp_path / "joined/founders-triton.json").read_text("utf-8"))["kernels"]
    own = json.loads((ROOT / "submissions/founders-triton.json").read_text("utf-8"))["kernels"]
    assert own.keys() == joined.keys()
    assert {faster["key"]} == {key for key in own if joined[key] != own[key]}


def test_of_drafts_that_were_judged_those_stay_that_are_correct_and_faster(tmp_path: Path) -> None:
    judged = json.loads((ROOT / "data/results/H200/founders-triton.json").read_text("utf-8"))
    rows = [row for row in judged["rows"] if row["status"] == "correct"][:2]
    for row, factor in zip(rows, (1.2, 0.9), strict=True):
        row["speedup"] *= factor
    (tmp_path / "judged.json").write_text(json.dumps(judged))
    said = join(
        tmp_path,
        *((row["key"], {"BLOCK": 1}, {"worst": 0.1, "ms": 0.01}) for row in rows),
        ("level_4_problem_1_sample_0", {"BLOCK": 3}, {"worst": 0.1, "ms": 1.0}),
        judged=tmp_path / "judged.json",
    )
    assert said.startswith(f"joined: {rows[0]['key']}\n")
    joined = json.loads((tmp_path / "joined/founders-triton.json").read_text("utf-8"))["kernels"]
    assert joined[rows[0]["key"]].endswith('TILE = {"BLOCK": 1}\n')
    own = json.loads((ROOT / "submissions/founders-triton.json").read_text("utf-8"))["kernels"]
    assert joined == own | {rows[0]["key"]: joined[rows[0]["key"]]}
