"""The notebook in examples/ runs from its first cell to its last, and its figures are the board's."""

import json
from pathlib import Path

from kernel_evaluator.records.keys import PROBLEM_COUNTS

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOK = ROOT / "examples" / "reading_results.ipynb"


def test_every_cell_runs_and_counts_as_the_board_does(monkeypatch):
    monkeypatch.chdir(NOTEBOOK.parent)
    names = {"__name__": "__main__"}
    for cell in json.loads(NOTEBOOK.read_text("utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"{NOTEBOOK.name}, {cell['id']}", "exec"), names)
    rows = json.loads((ROOT / "data/results/H200/founders-triton.json").read_text("utf-8"))["rows"]
    fast = sum(
        row["status"] == "correct" and row["key"].startswith("level_2") and row["speedup"] >= 1.5
        for row in rows
    )
    assert names["curve"].loc[1.5, "level 2"] == fast / PROBLEM_COUNTS[2] > 0
    assert names["verdict"].row.status == "correct"
