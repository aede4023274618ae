"""A backward pass as a problem of one's own: the example is judged, and a half of the gradient is found."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

KERNEL = """import torch


class ModelNew(torch.nn.Module):
    def forward(self, x, above):
        share = torch.sigmoid(x)
        return {gradient}
"""


@pytest.mark.timeout(300)
def test_a_gradient_is_judged_like_any_other_output(tmp_path: Path, repository: Path) -> None:
    gradients = ("above * share * (1 + x * (1 - share))", "above * share")
    kernels = {
        f"level_1_problem_1_sample_{at}": KERNEL.format(gradient=gradient)
        for at, gradient in enumerate(gradients)
    }
    (tmp_path / "entry.json").write_text(json.dumps({"metadata": {"display_name": "x"}, "kernels": kernels}))
    command = [
        sys.executable,
        "-m",
        "leaderboard",
        "evaluate",
        "entry.json",
        "--device",
        "cpu",
        "--work",
        "work",
    ]
    command += ["--problems", str(repository / "examples/backward"), "--profile", "compat"]

    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert 0 == done.returncode, done.stderr
    rows = json.loads((tmp_path / "work/CPU-reduced-own-problems-compat/entry.json").read_text())["rows"]
    assert [("correct", 5), ("mismatch", 0)] == [(row["status"], row["trials_passed"]) for row in rows]
