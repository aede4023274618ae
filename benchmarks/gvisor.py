"""Raise the walls, and judge a part of the red team, under gVisor, in which Modal runs its containers.

    python benchmarks/gvisor.py --write

Needs root, x86-64 and `dpkg-deb`. gVisor's `runsc` is fetched from Debian once, by its digest, into build/;
the variable RUNSC names another one. What runs inside has no network, and what it writes is thrown away. The
tests of the walls must pass there, every case must get the verdict that the manifest expects, and every wall
must stand.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "KernelBench"), str(ROOT)]

from kernel_evaluator.records.version import evaluator_sha256  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "gvisor.json"
MANIFEST = ROOT / "tests" / "redteam" / "manifest.json"
VERSION = "0.0~20240729.0-4+b7"
"""Of Debian 13. What Debian 12 has is of 2022: there mounts leak out of namespaces, and a test hangs."""

SHA256 = "3c25a5130dfac2f71237d5baad56ac86a255de87a0400f11b36a555156dc325a"
URL = f"https://deb.debian.org/debian/pool/main/g/golang-gvisor-gvisor/runsc_{VERSION}_amd64.deb"
FOLDER = ROOT / "build" / f"runsc-{SHA256[:12]}"

WALLS = {
    *("ipc", "mount", "network", "no-new-privileges", "pid"),
    *("root", "seccomp", "shared-memory", "uid", "uts"),
}
CASES = (
    "twin_relu h17 h46 e15 e32 e34 e37 e60 e63a e63b e64 e66 e67 e68 e70 e72 e75 e78"
    " x18 x19 x20 x21 x22 x39 x40"
)
"""Three honest kernels, and cheats that want out of their process. `x39` and `x40` look for each other."""

LATE = {"quarantined", "infra_error"}
SAYS = "the verdicts, one a line:"
LIMIT_S = 1800.0


@dataclass(frozen=True, kw_only=True)
class Ended:
    """What a part said, and whether all was as expected."""

    said: dict[str, Any]
    wrong: list[str]


def find_runsc() -> Path | None:
    """The program that starts gVisor, where it was fetched or named."""
    named = Path(os.environ.get("RUNSC") or FOLDER / "usr/bin/runsc")
    return named if named.is_file() else None


def fetch() -> Path:
    """Fetch the pinned package and unpack it; raises OSError where that fails, or where it is another one."""
    package = FOLDER.with_suffix(".deb")
    package.parent.mkdir(parents=True, exist_ok=True)
    with urllib.request.urlopen(URL, timeout=60) as reply:
        content = reply.read()
    if hashlib.sha256(content).hexdigest() != SHA256:
        raise OSError(f"{URL} is not the package that is pinned: expected the sha256 {SHA256}")
    package.write_bytes(content)
    subprocess.run(["dpkg-deb", "-x", package, FOLDER], check=True)
    package.unlink()
    return FOLDER / "usr/bin/runsc"


def inside(runsc: Path, command: str, limit_s: float = LIMIT_S) -> subprocess.CompletedProcess[str]:
    """Run a command line of bash in this checkout under gVisor. None of what it starts is left at its end."""
    started = f"cd {ROOT} && export OMP_NUM_THREADS=1 PATH={Path(sys.executable).parent}:$PATH && {command}"
    started += "; exit $?"  # so that bash stays the first process, which a test means to end
    sudo = [] if os.geteuid() == 0 else ["sudo", "-n"]
    return subprocess.run(
        [*sudo, runsc, "--network=none", "--platform=systrap", "do", "bash", "-c", started],
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
        timeout=limit_s,
    )


def walls(runsc: Path) -> Ended:
    """Try the walls from inside, as the tests do."""
    tests = "tests/evaluator/walls --ignore tests/evaluator/walls/test_gvisor.py"
    done = inside(runsc, f"python -m pytest {tests} -o addopts= -p no:cacheprovider")
    counted = {
        word: int(count) for count, word in re.findall(r"(\d+) (passed|failed|skipped|error)", done.stdout)
    }
    wrong = [] if done.returncode == 0 else [(done.stdout + done.stderr)[-4000:]]
    return Ended(said=counted, wrong=wrong)


def expected() -> dict[str, set[str]]:
    """Which verdicts each case may get there."""
    cases = json.loads(MANIFEST.read_text("utf-8"))["cases"]
    return {case["id"]: {*case["expect"], *case.get("under_gvisor", [])} for case in cases}


def cases(runsc: Path, wanted: str = CASES) -> Ended:
    """Judge cases of the red team there; walls that did not stand are wrong, whatever the verdict.

    What hangs on time is judged once more: gVisor does not count how long a process waits for a processor.
    """
    may = expected()
    told = _judged(runsc, wanted.split())
    late = [name for name, row in told.items() if row["row"]["status"] in LATE - may[name]]
    if late:
        told |= _judged(runsc, late)
    verdicts = {name: record["row"]["status"] for name, record in told.items()}
    wrong = [
        f"{name} got {verdicts.get(name, 'no verdict')}, expected {' or '.join(sorted(may[name]))}"
        for name in wanted.split()
        if verdicts.get(name) not in may[name]
    ]
    for name, record in told.items():
        if missing := WALLS - set(record["environment"]["isolation"]):
            wrong.append(f"{name} was judged without {', '.join(sorted(missing))}")
    return Ended(said=verdicts, wrong=wrong)


def _judged(runsc: Path, wanted: list[str]) -> dict[str, dict[str, Any]]:
    out = "/tmp/redteam-inside"
    judge = f"python benchmarks/redteam.py --device cpu --out {out} --only {','.join(wanted)}"
    done = inside(runsc, f"{judge}; echo {SAYS!r}; cat {out}/*.jsonl")
    records = [json.loads(line) for line in done.stdout.partition(SAYS)[2].splitlines() if line]
    if not records:
        sys.stderr.write(done.stdout + done.stderr)
    return {record["id"]: record for record in records}


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.relative_to(ROOT)}")
    chosen = parser.parse_args()
    runsc = find_runsc() or fetch()
    version = subprocess.run([runsc, "--version"], capture_output=True, text=True, check=True).stdout
    parts = {"tests": walls(runsc), "cases": cases(runsc)}
    wrong = [line for part in parts.values() for line in part.wrong]
    report = {
        "schema_version": 1,
        "evaluator_sha256": evaluator_sha256(),
        "runsc": version.split()[2],
        "walls": sorted(WALLS),
        **{name: part.said for name, part in parts.items()},
        "wrong": wrong,
    }
    print(json.dumps(report, indent=1))
    if chosen.write:
        RESULTS.write_text(json.dumps(report, indent=1) + "\n", "utf-8")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
