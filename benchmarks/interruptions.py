"""Kill commands at random moments, and see that nothing is lost and nothing is left.

    python benchmarks/interruptions.py --number 200 --write

Every command is started, gets SIGKILL, SIGTERM or SIGINT within the time that it takes undisturbed,
and is started anew, until it may come to its end. What it then has must be what an undisturbed run has. After
each kill all that it started must end, and its folder for temporary files must be empty.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "KernelBench"), str(ROOT)]

from compiling import TINY  # noqa: E402
from evaluating import SOURCE, kernel  # noqa: E402
from kernel_evaluator.records.version import evaluator_sha256  # noqa: E402
from kernel_evaluator.walls import sandbox  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "interruptions.json"
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
ENDS_S = 30.0
SLACK = 1.3
"""Kills come up to so many times the undisturbed time: the last ones find a command that is about to end."""


@dataclass
class Kind:
    """A command in a folder of its own, what it has in the end, and how many of the kills it gets."""

    command: list[str]
    has: Callable[[Path], Any]
    share: float
    prepare: Callable[[Path], None] = lambda folder: None
    killed: int = 0
    undisturbed_s: float = 0.0
    slowest_end_s: float = 0.0
    signals: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def prepare(folder: Path) -> None:
    """Lay out a small problem, an entry with three kernels, and one that compiles."""
    (folder / "problems/level1").mkdir(parents=True)
    (folder / "problems/level1/1_Tiny.py").write_text(SOURCE)
    for name in ("temporary", "cache"):
        (folder / name).mkdir()
    wrong = kernel("return self.right(x) * 1.5")
    sources = {"entry": [kernel("pass"), wrong, "class ModelNew("], "built": [TINY + kernel("pass")]}
    for name, kernels in sources.items():
        keys = {f"level_1_problem_1_sample_{at}": source for at, source in enumerate(kernels)}
        entry = {"metadata": {"display_name": name}, "kernels": keys}
        (folder / f"{name}.json").write_text(json.dumps(entry))


def verdicts(folder: Path) -> Any:
    """What was judged: a status a kernel, each once."""
    path = folder / "work" / "CPU-reduced" / "entry.json"
    rows = json.loads(path.read_text())["rows"] if path.exists() else []
    return sorted((row["key"], row["status"]) for row in rows)


def built(folder: Path) -> Any:
    """What was compiled."""
    summaries = (json.loads(path.read_text()) for path in (folder / "cache").rglob("build.json"))
    libraries = sorted(path.name for path in (folder / "cache").rglob("*.so"))
    return [sorted(each["status"] for each in summaries), libraries]


def pages(folder: Path) -> Any:
    """The site's files."""
    return sorted(str(path.relative_to(folder)) for path in (folder / "site").rglob("*") if path.is_file())


def files_of(name: str) -> Callable[[Path], Any]:
    """The bytes of all files in a folder, by name."""
    return lambda folder: {
        str(path.relative_to(folder)): path.read_text()
        for path in (folder / name).rglob("*")
        if path.is_file()
    }


def nothing(folder: Path) -> Any:
    """A server keeps nothing."""
    return None


KINDS = {
    "evaluate": Kind(
        ["evaluate", "entry.json", "--device", "cpu", "--problems", "problems", "--work", "work"],
        verdicts,
        0.4,
    ),
    "build": Kind(
        ["build", "built.json", "--problems", "problems", "--cache", "cache", "--arch", ""], built, 0.2
    ),
    "serve": Kind(["serve", "--device", "cpu", "--port", "0", "--problems", "problems"], nothing, 0.1),
    "site build": Kind(["site", "build", "--data", "no", "--submissions", "no", "--out", "site"], pages, 0.1),
    "unpack": Kind(["unpack", "entry.json", "--runs", "runs"], files_of("runs"), 0.1),
    "pack": Kind(
        ["pack", "packed/new.json", "runs/entry_level1", "--display-name", "x"],
        files_of("packed"),
        0.1,
        lambda folder: (_run(folder, KINDS["unpack"].command), (folder / "packed").mkdir())[0] and None,
    ),
}


def _start(folder: Path, command: list[str]) -> subprocess.Popen[bytes]:
    environment = {
        **os.environ,
        "TMPDIR": str(folder / "temporary"),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "KERNELBENCH_CACHE": str(folder / "cache" / "builds"),
        "OMP_NUM_THREADS": "1",
    }
    with (folder / "said").open("ab") as said:
        return subprocess.Popen(
            [str(Path(sys.executable).with_name("kbl")), *command],
            cwd=folder,
            env=environment,
            stdout=said,
            stderr=said,
        )


def _run(folder: Path, command: list[str]) -> float:
    started = time.monotonic()
    _start(folder, command).wait()
    return time.monotonic() - started


def undisturbed(name: str, kind: Kind, folder: Path) -> Any:
    """Run a command to its end; a server for a while."""
    if name == "serve":
        kind.undisturbed_s = 10.0
        return None
    kind.undisturbed_s = _run(folder, kind.command)
    return kind.has(folder)


def kill(kind: Kind, folder: Path, chance: random.Random) -> None:
    """Start the command, kill it, and note what lives on or lies about."""
    before = set(_shared())
    process = _start(folder, kind.command)
    with suppress(subprocess.TimeoutExpired):
        process.wait(chance.uniform(0, SLACK * kind.undisturbed_s))
    family = _ours(folder) | set(sandbox.descendants(process.pid))
    number = chance.choice(SIGNALS)
    process.send_signal(number)
    started = time.monotonic()
    while (
        left := _ours(folder) | {pid for pid in family if _runs(pid)}
    ) and time.monotonic() < started + ENDS_S:
        process.poll()
        time.sleep(0.02)
    process.wait()
    kind.killed += 1
    kind.signals[number.name] += 1
    kind.slowest_end_s = max(kind.slowest_end_s, round(time.monotonic() - started, 2))
    if left:
        kind.wrong.append(f"{[_command(pid) for pid in left]} live on after {number.name}")
        sandbox.kill_all(left)
    shared = set(_shared()) - before
    if shared:  # Python takes the names away a moment after; so do others who use this machine
        time.sleep(1.0)
    lying = [*(folder / "temporary").iterdir(), *(path for path in shared if path.exists())]
    if lying:
        kind.wrong.append(f"{[path.name for path in lying]} left by {number.name}")


def _shared() -> list[Path]:
    """Memory that was shared by name, as torch and Python name it."""
    names = ("torch_*", "psm_*", "pymp-*", "sem.*", "kernel_evaluator*")
    return [path for name in names for path in Path("/dev/shm").glob(name)]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")[:200]
    except OSError:
        return "gone"


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def _ours(folder: Path) -> set[int]:
    """All processes that have this folder in their environment, as whatever they started has."""
    found = set()
    for entry in Path("/proc").iterdir():
        try:
            if (
                entry.name.isdigit()
                and os.fsencode(folder) in (entry / "environ").read_bytes()
                and _runs(int(entry.name))
            ):
                found.add(int(entry.name))
        except OSError:
            continue
    return found


def series(name: str, kind: Kind, number: int, chance: random.Random) -> None:
    """Kill a command so many times, let it come to its end in between, and compare."""
    with tempfile.TemporaryDirectory() as outer:
        calm = Path(outer) / "calm"
        prepare(calm)
        kind.prepare(calm)
        expected = undisturbed(name, kind, calm)
        print(name, "undisturbed:", str(expected)[:200], flush=True)
        while kind.killed < number:
            folder = Path(outer) / f"disturbed-{kind.killed}"
            prepare(folder)
            kind.prepare(folder)
            for _ in range(min(4, number - kind.killed)):
                kill(kind, folder, chance)
            if name != "serve":
                _run(folder, kind.command)
            if kind.has(folder) != expected:
                kind.wrong.append(f"{kind.has(folder)} in place of {expected}"[:2000])
            if b"Traceback" in (folder / "said").read_bytes():
                kind.wrong.append((folder / "said").read_text(errors="replace")[-2000:])
            left = [path.name for path in (folder / "cache").rglob("work/*")]
            if left:
                kind.wrong.append(f"{left} left in the cache")


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--number", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.relative_to(ROOT)}")
    chosen = parser.parse_args()
    # A shell that starts this in the background has all that it starts ignore SIGINT.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    report: dict[str, Any] = {"schema_version": 1, "seed": chosen.seed, "killed": 0, "wrong": 0, "kinds": {}}
    if chosen.only and RESULTS.exists():  # what is not run now stays as it was recorded
        report["kinds"] = json.loads(RESULTS.read_text("utf-8"))["kinds"]
    for name, kind in KINDS.items():
        if chosen.only and name not in chosen.only.split(","):
            continue
        series(name, kind, round(chosen.number * kind.share), random.Random(f"{name} {chosen.seed}"))
        said = {each: getattr(kind, each) for each in ("killed", "undisturbed_s", "slowest_end_s", "wrong")}
        said |= {"signals": dict(kind.signals), "evaluator_sha256": evaluator_sha256()}
        report["kinds"][name] = said
        print(name, json.dumps(report["kinds"][name]), flush=True)
    report["killed"] = sum(kind["killed"] for kind in report["kinds"].values())
    report["wrong"] = sum(len(kind["wrong"]) for kind in report["kinds"].values())
    if chosen.write:
        RESULTS.write_text(json.dumps(report, indent=1) + "\n", "utf-8")
    return 1 if report["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
