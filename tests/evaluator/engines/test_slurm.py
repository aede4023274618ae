"""The recipe of docs/cluster.md under Slurm's own daemons: two nodes, and one whose agent is killed."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest

pytest.importorskip("ray", reason="ray is not installed: pip install '.[ray]'")
from slurm_daemons import LACKING, agents, said, slurm, submitted  # after what may skip this

pytestmark = [
    pytest.mark.skipif(bool(LACKING), reason=f"{', '.join(LACKING)} missing: apt-get install slurm-wlm"),
    pytest.mark.skipif(os.geteuid() != 0, reason="Slurm's daemons need root"),
    pytest.mark.timeout(280),
]

from evaluating import RIGHT, SOURCE, kernel  # noqa: E402  # after what may skip this


def test_the_recipe_judges_an_entry_though_a_node_s_agent_is_killed(tmp_path):
    (tmp_path / "problems/level1").mkdir(parents=True)
    (tmp_path / "problems/level1/1_Tiny.py").write_text(SOURCE)
    slow = "import time\ntime.sleep(1.5)\n"  # the second node is there before the last kernel is judged
    sources = [
        slow + RIGHT,
        slow + RIGHT.replace("min=0", "min=0.5"),
        slow + kernel("raise ValueError('no')"),
        "class ModelNew(",
    ]
    kernels = {f"level_1_problem_1_sample_{at}": f"{sources[at % 4]}\n# {at}\n" for at in range(24)}
    (tmp_path / "entry.json").write_text(json.dumps({"metadata": {"display_name": "x"}, "kernels": kernels}))
    until = time.monotonic() + 240
    with slurm(["n1", "n2"]) as there:
        options = ["entry.json", "--device", "cpu", "--problems", "problems", "--profile", "compat"]
        job, out = submitted(there, tmp_path, *options)
        while not (agents("SLURMD_NODENAME=n2") and "[4/24]" in out.read_text()):
            assert time.monotonic() < until and job in said(["squeue", "-h"], there), out.read_text()
            time.sleep(0.2)
        [agent] = agents("SLURMD_NODENAME=n2")
        os.kill(agent, signal.SIGKILL)
        while job in said(["squeue", "-h"], there):
            assert time.monotonic() < until, out.read_text()
            time.sleep(0.5)
        assert [] == agents()
    [work] = tmp_path.glob("build/evaluations/*/entry.json")
    rows = {row["key"]: row["status"] for row in json.loads(work.read_text())["rows"]}
    expected = ["correct", "mismatch", "runtime_error", "compile_error"]
    assert {key: expected[at % 4] for at, key in enumerate(kernels)} == rows, out.read_text()
