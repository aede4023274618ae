"""Which test needs a constant: each is made four times as large, then a quarter, and tests run.

    python benchmarks/constants.py [--only timing.stopping.HALF_WIDTH] [--workers 2] [--write]

Takes the constants of docs/method.md, and changes each in a copy of this checkout. The first test that fails
says what is judged wrongly without it. `--work` goes on where it was stopped. With `--write` what is found
goes into benchmarks/results/constants.json.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from queue import SimpleQueue
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "KernelBench"), str(ROOT)]

from kernel_evaluator.records.version import evaluator_sha256  # noqa: E402

from leaderboard.files.store import write_atomically  # noqa: E402

RESULT = ROOT / "benchmarks" / "results" / "constants.json"
QUICK = (
    "tests/evaluator/timing",
    "tests/evaluator/test_scores.py",
    "tests/evaluator/machine/test_figures.py",
    "tests/evaluator/numerics",
    "tests/evaluator/stand",
)
JUDGING = (
    "tests/evaluator/judging",
    "tests/evaluator/problems/test_inputs.py",
    "tests/evaluator/proofs/test_sharpness.py",
    "tests/test_redteam.py",
)
"""These judge kernels, which takes minutes: only where none of the quick ones fails, and if that is asked."""
FACTORS = (4.0, 0.25)
_ROW = re.compile(r"^\| `([a-z_.]+)\.([A-Z]\w*)` \| [^|]*\d[^|]* \|", re.MULTILINE)
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+?::.+?)(?: - |$)", re.MULTILINE)


def constants() -> list[str]:
    """The names of all constants of the method that are numbers."""
    text = (ROOT / "docs" / "method.md").read_text("utf-8")
    return [f"{module}.{name}" for module, name in _ROW.findall(text.partition("## Constants")[2])]


def scaled(value: Any, factor: float) -> Any:
    """So many times a number, or each of a mapping's; a whole one stays one, and above zero."""
    if isinstance(value, dict):
        return {key: scaled(each, factor) for key, each in value.items()}
    return max(1, round(value * factor)) if isinstance(value, int) else value * factor


def copy_of_checkout(folder: Path) -> Path:
    """A copy of what git holds, as it lies here."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True)
    for name in filter(None, listed.stdout.split("\0")):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, target)
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    return folder


def who_fails(checkout: Path, constant: str, factor: float, tests: Sequence[str]) -> str | None:
    """The first test that fails with a constant changed, again when it runs alone; None where all pass."""
    module, _, name = constant.rpartition(".")
    path = checkout / "KernelBench" / "kernel_evaluator" / f"{module.replace('.', '/')}.py"
    value = scaled(getattr(import_module(f"kernel_evaluator.{module}"), name), factor)
    own = path.read_text("utf-8")
    path.write_text(own + f"\n\n{name} = {value!r}\n", "utf-8")
    by_chance: list[str] = []
    try:
        while found := _first_failure(checkout, [*tests, *(f"--deselect={test}" for test in by_chance)]):
            if _first_failure(checkout, [found]):
                return found
            by_chance.append(found)
        return None
    finally:
        path.write_text(own, "utf-8")


def _first_failure(checkout: Path, chosen: Sequence[str]) -> str | None:
    paths = [str(checkout), str(checkout / "KernelBench"), str(checkout / "benchmarks")]
    (checkout.parent / "temporary").mkdir(exist_ok=True)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "OMP_NUM_THREADS": "1",
        "TMPDIR": str(checkout.parent / "temporary"),
    }
    command = [sys.executable, "-m", "pytest", "-x", "--no-header", "--tb=no", "-p", "no:xdist", *chosen]
    done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)
    found = _FAILED.search(done.stdout)
    if done.returncode and not found:
        raise SystemExit(f"error: pytest ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr}")
    return found[1] if found else None


def main() -> None:
    """Print what is found of each constant, and keep it if asked."""
    options = _options()
    work = options.work / "constants.jsonl"
    options.work.mkdir(parents=True, exist_ok=True)
    known = [json.loads(line) for line in work.read_text("utf-8").splitlines()] if work.exists() else []
    done = {(each["constant"], each["factor"]): each["test"] for each in known}
    wanted = options.only.split(",") if options.only else constants()
    left = [
        (name, factor)
        for name in wanted
        for factor in FACTORS
        if (name, factor) not in done or (options.thorough and done[name, factor] is None)
    ]
    copies: SimpleQueue[Path] = SimpleQueue()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.workers) as pool:
        for at in range(options.workers):
            copies.put(copy_of_checkout(Path(folder) / str(at) / "checkout"))

        def judge(pair: tuple[str, float]) -> tuple[tuple[str, float], str | None]:
            checkout = copies.get()
            try:
                return pair, who_fails(checkout, *pair, QUICK + JUDGING if options.thorough else QUICK)
            finally:
                copies.put(checkout)

        for pair, test in pool.map(judge, left):
            done[pair] = test
            with work.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"constant": pair[0], "factor": pair[1], "test": test}) + "\n")
            sys.stdout.write(f"{pair[0]} x {pair[1]:g}: {test or 'nothing fails'}\n")
            sys.stdout.flush()
    if options.write:
        found = {
            name: {f"x{factor:g}": done.get((name, factor)) for factor in FACTORS} for name in constants()
        }
        write_atomically(
            RESULT, json.dumps({"evaluator_sha256": evaluator_sha256(), "constants": found}, indent=1) + "\n"
        )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="names of constants, as in docs/method.md")
    parser.add_argument("--thorough", action="store_true", help="judge kernels where no quick test fails")
    parser.add_argument("--workers", type=int, default=1, help="so many at once")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "constants", help="what is done so far")
    parser.add_argument("--write", action="store_true", help="keep what is found")
    return parser.parse_args()


if __name__ == "__main__":
    main()
