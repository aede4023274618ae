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
