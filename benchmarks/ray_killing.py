"""Judges kernels on a Ray cluster of this host while its nodes are killed, and compares with `local`.

    python benchmarks/ray_killing.py --kernels 200 --kills 10    (into benchmarks/results/ray_killing.json)
    python benchmarks/ray_killing.py --slurm                     (into benchmarks/results/slurm_killing.json)

Every node is real `ray` processes. A kill takes a node's agent with SIGKILL, every other time with all that
it started; another node joins for it. Under Slurm, the recipe of docs/cluster.md runs on three nodes of its
own daemons, and agents of the two that do not hold the head are killed. Fails where a verdict is missing,
comes twice or differs, and where a process or anything in shared memory is left.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from copies import as_kernel
from kernel_evaluator.engines.local import LocalEngine
from kernel_evaluator.engines.ray.engine import RayEngine
from kernel_evaluator.engines.ray.nodes import Board
from kernel_evaluator.problems.jobs import Job, Settings
from kernel_evaluator.problems.problem_set import ProblemSet, read_sizes
from kernel_evaluator.records.keys import KernelKey
from kernel_evaluator.records.version import EVALUATOR_VERSION, evaluator_sha256

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))
import slurm_daemons  # noqa: E402  # these lie beside the tests
from ray_cluster import machines, nothing_left  # noqa: E402

RESULTS = Path(__file__).parent / "results"
Outcome = tuple[list[dict[str, Any]], list[int], str]
"""The row of each verdict, after how many of them a node was killed, and what was left behind."""
COMPARED = ("status", "kernel_sha256", "problem_sha256", "evaluator_sha256", "trials_passed", "trials_asked")
SLOW = "import time\ntime.sleep(1)\n"
"""Under Slurm, where a killed agent takes its time to come back, and is to be killed again."""
PROBLEMS = ((1, 19), (1, 21), (1, 25), (1, 30), (1, 88), (2, 40), (2, 63))


def main() -> int:
    """Judge with and without kills, write what came of it; give 0 where all held."""
    options = _options()
    jobs = _jobs(options.kernels, SLOW if options.slurm else "")
    settings = Settings(device="cpu", sizes="reduced", measure=False, trials=2)
    if options.slurm:  # the command always measures, and KernelBench's way takes least
        settings = Settings(device="cpu", sizes="reduced", profile="compat")
    dice = random.Random(options.seed)
    kills = sorted(dice.sample(range(3, options.kernels - 3), options.kills))
    started = time.monotonic()
    verdicts, killed, left = (_under_slurm if options.slurm else _on_ray)(jobs, settings, dice, kills)
    seconds = time.monotonic() - started
    local = {str(each.row.key): each.row.to_json() for each in LocalEngine().run(jobs, settings)}
    found = {row["key"]: row for row in verdicts}
    differing = sorted(key for key, row in found.items() if _compared(local[key]) != _compared(row))
    figures = {
        "kernels": len(jobs),
        "kills": len(killed),
        "killed_after": killed,
        "verdicts": len(verdicts),
        "twice": len(verdicts) - len(found),
        "missing": sorted(set(local) - set(found)),
        "differing": differing,
        "statuses": dict(Counter(row["status"] for row in verdicts)),
        "left_behind": left,
        "seconds": round(seconds, 1),
        "local_seconds": round(time.monotonic() - started - seconds, 1),
        "cores": os.cpu_count(),
        "load_average": [round(load, 1) for load in os.getloadavg()],
        "evaluator_version": EVALUATOR_VERSION,
        "evaluator_sha256": evaluator_sha256(),
    }
    out = options.out or RESULTS / f"{'slurm' if options.slurm else 'ray'}_killing.json"
    out.write_text(json.dumps(figures, indent=2) + "\n")
    print(json.dumps(figures, indent=2))
    whole = len(verdicts) == len(local) == len(jobs) and not figures["twice"] and len(killed) == options.kills
    return 0 if whole and not differing and not left else 1


def _compared(row: dict[str, Any]) -> list[Any]:
    """What is the same whoever judges: times and drawn inputs are not."""
    elsewhere = sorted(set((row.get("elsewhere") or {}).values()))
    return [row.get("failure", {}).get("name"), elsewhere, *(row[name] for name in COMPARED)]


def _on_ray(jobs: list[Job], settings: Settings, dice: random.Random, kills: list[int]) -> Outcome:
    verdicts: list[dict[str, Any]] = []
    killed: list[int] = []
    try:
        with machines(nodes=3) as there:
            for verdict in RayEngine(Board(gpu="CPU")).run(jobs, settings):
                verdicts.append(verdict.row.to_json())
                if len(verdicts) in kills:
                    there.kill(dice.choice(there.nodes), with_workers=len(verdicts) % 2 == 0)
                    there.nodes.append(there.add())
                    killed.append(len(verdicts))
                    print(f"{len(verdicts)} judged, a node killed", file=sys.stderr)
    except AssertionError as error:
        return verdicts, killed, str(error)
    return verdicts, killed, ""


def _under_slurm(jobs: list[Job], settings: Settings, dice: random.Random, kills: list[int]) -> Outcome:
    kernels = {str(job.key): job.source for job in jobs}
    others = ["n2", "n3"]
    entry = {"metadata": {"display_name": "x"}, "kernels": kernels}
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name, slurm_daemons.slurm(["n1", *others]) as there:
        folder = Path(name)
        (folder / "entry.json").write_text(json.dumps(entry))
        command = ["entry.json", "--device", settings.device, "--profile", settings.profile]
        killed: list[int] = []
        try:
            with nothing_left():
                job, out = slurm_daemons.submitted(there, folder, *command, nodes=3)
                while job in slurm_daemons.said(["squeue", "-h"], there):
                    judged = out.read_text(errors="replace").count(f"/{len(jobs)}] ")
                    due = len(killed) < len(kills) and judged >= kills[len(killed)]
                    if due and (agent := _agent(others, dice)):
                        os.kill(agent, signal.SIGKILL)
                        killed.append(judged)
                        print(f"{judged} judged, an agent killed", file=sys.stderr)
                    time.sleep(0.1)
                [work] = folder.glob("build/evaluations/*/entry.json")
                rows = json.loads(work.read_text())["rows"]
        except AssertionError as error:
            return rows, killed, str(error)
    return rows, killed, ""


def _agent(nodes: list[str], dice: random.Random) -> int | None:
    found = [pid for name in nodes for pid in slurm_daemons.agents(f"SLURMD_NODENAME={name}")]
    return dice.choice(found) if found else None


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kernels", type=int, default=200)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=32)
    parser.add_argument("--slurm", action="store_true", help="under Slurm's daemons, as root")
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


def _jobs(count: int, first: str = "") -> list[Job]:
    """The problems' own modules as kernels, in turns right, wrong, failing, and not Python."""
    sizes = read_sizes()
    jobs = []
    for number in range(count):
        level, problem_id = PROBLEMS[number % len(PROBLEMS)]
        problem = ProblemSet().load(level, problem_id).reduced(sizes)
        right = as_kernel(problem.sized_source)
        kind = number // len(PROBLEMS) % 4
        source = {
            0: right,
            1: right + "\nModelNew.forward, _f = lambda self, *x: _f(self, *x) * 1.5, ModelNew.forward\n",
            2: right + "\ndef _fail(self, *x):\n    raise ValueError('no')\nModelNew.forward = _fail\n",
            3: "class ModelNew(" if number % 2 else right,
        }[kind]
        key = KernelKey(level, problem_id, number // len(PROBLEMS))
        jobs.append(Job(key=key, source=f"{first}{source}\n# {number}\n", problem=problem))
    return jobs


if __name__ == "__main__":
    sys.exit(main())
