"""Judge the worked kernels of docs/first-entry.md on this machine: which backends run, and how fast.

    python benchmarks/worked.py --device cuda --work build/worked --write

They are the samples of one entry, in the order of the page's table. What is judged is kept in WORK, and not
judged again. `--write` copies it, as it came, to `results/worked-<gpu>.json`. Where a toolchain is missing
the row says so.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "KernelBench"), str(ROOT)]

from leaderboard.files.store import write_atomically  # noqa: E402

PAGE = ROOT / "docs" / "first-entry.md"
_ROW = re.compile(r"^\| `.*?\]\(\.\./(examples/worked/\S+\.py)\)", re.MULTILINE)
_SAMPLE = re.compile(r"\d+$")


def kernels() -> dict[str, str]:
    """The sources by key: of a problem's kernels the place in the table is the sample."""
    found = {}
    for place, path in enumerate(_ROW.findall(PAGE.read_text("utf-8"))):
        found[_SAMPLE.sub(str(place), Path(path).stem)] = (ROOT / path).read_text("utf-8")
    return found


def main() -> int:
    """Run the command; the exit status is that of `kbl evaluate`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "worked")
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/worked-<gpu>.json")
    chosen = parser.parse_args()
    entry = chosen.work / "worked.json"
    entry.parent.mkdir(parents=True, exist_ok=True)
    metadata = {"display_name": "Worked", "notes": "One kernel in each backend."}
    write_atomically(entry, json.dumps({"metadata": metadata, "kernels": kernels()}, indent=1) + "\n")
    command = [sys.executable, "-m", "leaderboard", "evaluate", str(entry), "--device", chosen.device]
    command += ["--work", str(chosen.work), "--data", str(chosen.work / "none")]
    status = subprocess.run(command, cwd=ROOT, check=False).returncode
    if chosen.write:
        (path,) = chosen.work.glob("*/worked.json")
        results = ROOT / "benchmarks" / "results" / f"worked-{path.parent.name}.json"
        write_atomically(results, path.read_text("utf-8"))
    return status


if __name__ == "__main__":
    sys.exit(main())
