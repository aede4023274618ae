"""Judges every worked example of the prompts with our evaluator, on this machine's GPU.

    python benchmarks/prompt_examples.py        (writes benchmarks/results/prompt_examples.json)

Examples whose framework or device is missing are listed with the reason. Fails where one that ran is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from kernel_evaluator.machine.architectures import Vendor, device_vendor
from kernel_evaluator.machine.extras import is_installed
from kernel_evaluator.problems.jobs import Job, Settings, Verdict
from kernel_evaluator.problems.problem_set import Problem
from kernel_evaluator.records.keys import KernelKey
from kernel_evaluator.records.version import EVALUATOR_VERSION, evaluator_sha256

from leaderboard.prompts import EXAMPLES
from leaderboard.stages.engines import open_place, visible_gpus

RESULTS = Path(__file__).parent / "results" / "prompt_examples.json"
LEVEL = 4
"""References of the examples are judged under level 4, of which no table of work or sizes speaks."""


def main() -> int:
    """Judge, print and write; give 0 where every example that could run is correct."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--only", default="", help="one backend")
    options = parser.parse_args()
    listed = tomllib.loads((EXAMPLES / "manifest.toml").read_text("utf-8"))["examples"]
    chosen = {at: item for at, item in enumerate(listed, start=1) if options.only in ("", item["backend"])}
    missing = {at: reason for at, item in chosen.items() if (reason := why_not(item["needs"]))}
    verdicts = {
        v.row.key.problem_id: v for v in judge({at: i for at, i in chosen.items() if at not in missing})
    }
    lines = [line(item, verdicts.get(at), missing.get(at, "")) for at, item in chosen.items()]
    environments = {verdict.environment.gpu: verdict.environment.__dict__ for verdict in verdicts.values()}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    figures = {
        "evaluator_version": EVALUATOR_VERSION,
        "evaluator_sha256": evaluator_sha256(),
        "environments": environments,
        "examples": lines,
    }
    options.out.write_text(json.dumps(figures, indent=2, default=str) + "\n")
    for each in lines:
        print(f"{each['backend']:15} {each['name']:12} {each['status']:14} {each['reason']}")
    return 0 if all(each["status"] in ("correct", "not run") for each in lines) else 1


def why_not(needs: Iterable[str]) -> str:
    """Say what an example needs and this machine lacks; nothing where it can be judged."""
    return next((said for need in needs if (said := _lacks(need))), "")


def judge(examples: dict[int, dict[str, Any]]) -> Iterator[Verdict]:
    """Judge examples, those of one precision together."""
    for precision in sorted({item.get("precision", "fp32") for item in examples.values()}):
        jobs = [job(at, item) for at, item in examples.items() if item.get("precision", "fp32") == precision]
        settings = Settings(device="cuda", precision=precision)
        yield from open_place("local", "cuda").engine.run(jobs, settings)


def job(at: int, item: dict[str, Any]) -> Job:
    """Pair an example with its reference."""
    reference = EXAMPLES / "reference" / f"{item['name']}.py"
    return Job(
        key=KernelKey(LEVEL, at),
        source=(EXAMPLES / item["backend"] / f"{item['name']}.py").read_text("utf-8"),
        problem=Problem(level=LEVEL, problem_id=at, name=item["name"], source=reference.read_text("utf-8")),
    )


def line(item: dict[str, Any], verdict: Verdict | None, reason: str) -> dict[str, Any]:
    """Put one example's outcome into words."""
    facts = {"backend": item["backend"], "name": item["name"], "precision": item.get("precision", "fp32")}
    if verdict is None:
        return {**facts, "status": "not run", "reason": reason}
    row = verdict.row
    failure = f"{row.failure.name}: {row.failure.message} {row.failure.log[-1500:]}" if row.failure else ""
    return {
        **facts,
        "status": row.status.value,
        "reason": failure,
        "worst_error": row.worst_error,
        "speedup": row.speedup,
        "speedup_ci95": row.speedup_ci95,
        "runtime_ms": row.runtime_ms.median if row.runtime_ms else None,
    }


def _lacks(need: str) -> str:
    names = visible_gpus()
    if need == "cuda":
        found = any(device_vendor(name) is Vendor.NVIDIA for name in names)
        return "" if found else "no NVIDIA GPU on this machine"
    if need == "rocm":
        return "" if shutil.which("rocminfo") else "no AMD GPU on this machine"
    if need.isupper():
        return "" if os.environ.get(need) else f"the variable {need} is not set"
    return "" if is_installed(need) else f"the package {need} is not installed"


if __name__ == "__main__":
    sys.exit(main())
