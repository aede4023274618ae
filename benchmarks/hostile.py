"""Judge hostile kernels beside honest ones inside a bound on memory, and look at what is left of them.

    python benchmarks/hostile.py --write

The guilty must get a status of their own, honest ones the same as alone, and nothing may be left on the
machine. `--write` renews benchmarks/results/hostile-CPU.json and the table in SECURITY.md. Needs root, and
refuses to begin where a wall is missing.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "KernelBench"), str(ROOT)]

from hostile_kernels import Kernel, read  # noqa: E402
from kernel_evaluator.engines.local import LocalEngine  # noqa: E402
from kernel_evaluator.problems.jobs import Job, Settings  # noqa: E402
from kernel_evaluator.problems.problem_set import ProblemSet, read_sizes  # noqa: E402
from kernel_evaluator.records.keys import KernelKey  # noqa: E402
from kernel_evaluator.records.rows import Row, Status  # noqa: E402
from kernel_evaluator.records.version import evaluator_sha256  # noqa: E402
from kernel_evaluator.walls import sandbox  # noqa: E402
from pages import renew  # noqa: E402

from leaderboard.doctor import WALLS, _walls  # noqa: E402

RECORD = ROOT / "benchmarks" / "results" / "hostile-CPU.json"
START, END = "<!-- hostile: written by benchmarks/hostile.py --write -->", "<!-- end of hostile -->"
CGROUPS = Path("/sys/fs/cgroup")
PLACES = ("/tmp", "/var/tmp", "/dev/shm", "/run", "/run/lock", "/dev/mqueue", "/")
EVERY = 6
"""An honest kernel stands after so many hostile ones."""

KERNEL_GB = 4.0
"""A kernel's memory: torch's build for CUDA takes more than two of it before anything is computed."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """What came of a kernel."""

    kernel: Kernel
    row: Row

    @property
    def is_fine(self) -> bool:
        """Whether it got what it may get, and says nothing of an escape."""
        said = f"{self.row.failure.message} {self.row.failure.log}" if self.row.failure else ""
        return self.row.status.value in self.kernel.expect and "Escaped" not in said


@contextmanager
def bounded(memory_gb: float) -> Iterator[str]:
    """Put this process and all that it starts into a control group; say which bound holds."""
    for folder, name in ((CGROUPS, "memory.max"), (CGROUPS / "memory", "memory.limit_in_bytes")):
        group = folder / f"kernelbench-hostile-{os.getpid()}"
        if not (folder / "cgroup.procs").exists():
            continue
        try:
            group.mkdir()
            (group / name).write_text(str(int(memory_gb * 2**30)))
            before = _group_of(folder)
            (group / "cgroup.procs").write_text(str(os.getpid()))
        except OSError:
            if group.is_dir():
                group.rmdir()
            continue
        try:
            yield f"{memory_gb:g} GiB for all"
        finally:
            (before / "cgroup.procs").write_text(str(os.getpid()))
            deadline = time.monotonic() + 10
            while group.is_dir() and time.monotonic() < deadline:
                try:
                    group.rmdir()
                except OSError:
                    time.sleep(0.1)
        return
    yield "no bound for all: this machine lets nobody make a control group"


def _group_of(folder: Path) -> Path:
    name = "memory" if folder.name == "memory" else ""
    groups = [line.split(":", 2)[1:] for line in Path("/proc/self/cgroup").read_text().splitlines()]
    return folder / next(path for controllers, path in groups if name in controllers.split(",")).lstrip("/")


def judge(kernels: Sequence[Kernel], settings: Settings, cache: Path) -> list[Found]:
    """Judge kernels in one evaluation, in this order as far as builds allow."""
    problem = ProblemSet().load(1, 19).reduced(read_sizes())
    jobs = [
        Job(key=KernelKey(1, 19, at), source=each.source, problem=problem) for at, each in enumerate(kernels)
    ]
    found = []
    for verdict in LocalEngine(cache=cache).run(jobs, settings):
        each = Found(kernel=kernels[verdict.row.key.sample], row=verdict.row)
        why = f"{each.row.failure.name}: {each.row.failure.message[:100]!r}" if each.row.failure else ""
        mark = " " if each.is_fine else "!"
        print(mark, f"{each.row.status.value:14}", each.kernel.kind, each.kernel.does, why, flush=True)
        found.append(each)
    return found


def left() -> set[str]:
    """What candidates could have left: files by places and owners, processes, memory, a name."""
    found = {f"process {entry.name}" for entry in Path("/proc").iterdir() if _is_candidates(entry)}
    for place in map(Path, PLACES):
        for entry in place.iterdir() if place.is_dir() else ():
            if _is_candidates(entry) or entry.name.startswith(("probe", "kernel_evaluator-")):
                found.add(str(entry))
    found |= {f"System V {line}" for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]}
    return found | {f"named {os.uname().nodename}"}


def _is_candidates(path: Path) -> bool:
    try:
        return sandbox.FIRST_UID <= path.lstat().st_uid < sandbox.FIRST_UID + sandbox.UIDS
    except OSError:
        return False


def summary(
    alone: Sequence[Found], beside: Sequence[Found], leftovers: set[str], bound: str
) -> dict[str, Any]:
    """Say what came of all, as it is published."""
    guilty = [each for each in beside if not each.kernel.is_honest]
    honest = [each for each in beside if each.kernel.is_honest]
    before = {each.kernel: each.row.status for each in alone}
    return {
        "schema_version": 1,
        "finished_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "evaluator_sha256": evaluator_sha256(),
        "bound": bound,
        "hostile": len(guilty),
        "honest": len(honest),
        "unexpected": [each.kernel.does for each in guilty if not each.is_fine],
        "infra_errors": [each.kernel.does for each in beside if each.row.status is Status.INFRA_ERROR],
        "other_verdicts": [each.kernel.does for each in honest if each.row.status != before[each.kernel]],
        "left": sorted(leftovers),
        "not_judged": [],
        "kernels": [
            {
                "kind": each.kernel.kind,
                "does": each.kernel.does,
                "status": each.row.status.value,
                "said": each.row.failure.name if each.row.failure else "",
            }
            for each in sorted(guilty, key=lambda each: each.row.key.sample)
        ],
    }


def merged(before: dict[str, Any], report: dict[str, Any]) -> dict[str, Any]:
    """The record with what was judged again in its place; what went wrong with others stays."""
    again = {each["does"]: each for each in report["kernels"]}
    kept = ("infra_errors", "other_verdicts", "left")
    return {
        **report,
        "hostile": before["hostile"],
        "honest": before["honest"] + report["honest"],
        **{name: [*before[name], *report[name]] for name in kept},
        "kernels": [again.get(each["does"], each) for each in before["kernels"]],
    }


def table(report: dict[str, Any]) -> str:
    """The page's table."""
    lines = ["| kind | a kernel that … | gets |", "|---|---|---|"]
    for each in report["kernels"]:
        said = f": {each['said']}" if each["said"] else ""
        lines.append(f"| {each['kind']} | {each['does']} | `{each['status']}`{said} |")
    return "\n".join(lines)


def write(report: dict[str, Any]) -> None:
    """Renew the record and the page."""
    RECORD.write_text(json.dumps(report, indent=1) + "\n", "utf-8")
    renew(ROOT / "SECURITY.md", START, END, f"\n{table(report)}\n")


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--memory-gb", type=float, default=8.0, help="for all that runs, where it can be bounded"
    )
    parser.add_argument("--measure", action="store_true", help="time what is correct, too")
    parser.add_argument("--only", default="", help="kinds separated by commas")
    parser.add_argument("--again", action="store_true", help="judge what was unexpected in the record again")
    parser.add_argument("--write", action="store_true", help="renew the record and SECURITY.md")
    chosen = parser.parse_args()
    walls = next(iter(_walls()))
    if not walls.ok:
        print(f"walls: {walls.found}; all of {', '.join(WALLS)} are needed")
        return 2
    libc = ctypes.CDLL(None)  # should a wall fall, this machine's mounts stay as they are
    if libc.unshare(0x20000) != 0 or libc.mount(b"none", b"/", None, 16384 | 1 << 18, None) != 0:
        return 2
    kinds = set(filter(None, chosen.only.split(",")))
    honest = [each for each in read() if each.is_honest]
    hostile = [each for each in read() if not each.is_honest and (not kinds or each.kind in kinds)]
    recorded = json.loads(RECORD.read_text("utf-8")) if chosen.again else {}
    if chosen.again:
        hostile = [each for each in hostile if each.does in recorded["unexpected"]]
    kernels: list[Kernel] = []
    for at, each in enumerate(hostile):
        kernels.append(each)
        if at % EVERY == EVERY - 1 or at == len(hostile) - 1:
            kernels.append(honest[at // EVERY % len(honest)])
    settings = Settings(
        device="cpu",
        sizes="reduced",
        timeout_s=20.0,
        build_timeout_s=200.0,
        memory_gb=KERNEL_GB,
        trials=2,
        measure=chosen.measure,
    )
    before = left()
    with tempfile.TemporaryDirectory() as cache, bounded(chosen.memory_gb) as bound:
        print(bound, flush=True)
        alone = judge(honest, settings, Path(cache) / "alone")
        beside = judge(kernels, settings, Path(cache) / "beside")
        work = [*Path(cache).glob("*/work/*")]
    report = summary(alone, beside, (left() - before) | {str(path) for path in work}, bound)
    report = merged(recorded, report) if chosen.again else report
    print(json.dumps({name: value for name, value in report.items() if name != "kernels"}, indent=1))
    if chosen.write:
        write(report)
    wrong = [name for name in ("unexpected", "infra_errors", "other_verdicts", "left") if report[name]]
    return 1 if wrong or len(beside) < len(kernels) else 0


if __name__ == "__main__":
    sys.exit(main())
