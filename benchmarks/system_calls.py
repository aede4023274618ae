"""Record which system calls honest kernels make behind the walls, and hold them against what is allowed.

    python benchmarks/system_calls.py --out build/system-calls --write

Judges honest kernels under strace: the red team's corpus, copies of references, plain and by torch.compile,
with all that they compile. Counts what their processes and the compilers' call once the filter stands. With
--device cuda the same is recorded on a GPU. Needs strace.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "KernelBench"), str(ROOT)]

from kernel_evaluator.walls.syscalls import NUMBERS  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results"
COPIES = ("1_1", "1_19", "1_47", "1_63", "2_12", "2_76", "3_5", "3_36", "3_43")
CALL = re.compile(r"^(\w+)\((.*)\)\s+= (\S+)(?: (E[A-Z]+)\b)?(?:.*?/\* (\d+) in strace's PID NS \*/)?")
FORKS = ("clone", "clone3", "fork", "vfork")


def judge(device: str, limit: int) -> None:
    """Judge the corpus in this process, which strace follows; nothing is timed."""
    import redteam
    from kernel_evaluator.engines.local import LocalEngine
    from kernel_evaluator.problems.jobs import Job, Settings
    from kernel_evaluator.problems.problem_set import ProblemSet, read_sizes
    from kernel_evaluator.records.keys import KernelKey
    from rewrites import copy

    jobs, seen = [], Counter[tuple[int, int]]()
    honest = [case for case in redteam.read_cases(device) if case.kind != "exploit"]
    chosen = [(case.problem, case.source) for case in honest[:limit]]
    compiled = json.loads((ROOT / "submissions" / "torch-compile.json").read_text("utf-8"))["kernels"]
    for number in COPIES:
        problem = ProblemSet().load(*map(int, number.split("_")))
        problem = problem.reduced(read_sizes()) if device == "cpu" else problem
        chosen.append((problem, copy(problem) or ""))
        chosen.append((problem, compiled[f"level_{problem.level}_problem_{problem.problem_id}_sample_0"]))
    for problem, source in chosen:
        place = (problem.level, problem.problem_id)
        jobs.append(Job(key=KernelKey(*place, seen[place]), source=source, problem=problem))
        seen[place] += 1
    sizes = "reduced" if device == "cpu" else "full"
    settings = Settings(device=device, sizes=sizes, timeout_s=600.0, memory_gb=8.0, measure=False)
    for verdict in LocalEngine(cache=Path("cache").resolve()).run(jobs, settings):
        row = verdict.row
        print(row.key, row.status.value, row.failure.message[:200] if row.failure else "", flush=True)


def inside(folder: Path) -> Iterator[list[str]]:
    """The lines of every process behind the walls, from the filter on; of its children, all lines."""
    traces = {
        int(path.suffix[1:]): path.read_text("utf-8", "replace").splitlines() for path in folder.iterdir()
    }
    starts = {
        pid: at + 1 for pid, lines in traces.items() for at, line in enumerate(lines) if _raises_filter(line)
    }
    waiting = list(starts)
    while waiting:
        pid = waiting.pop()
        lines = traces[pid][starts[pid] :]
        yield lines
        for line in lines:
            found = CALL.match(line)
            if found and found[1] in FORKS and found[3].isdigit():
                child = int(found[5] or found[3])
                if child in traces and child not in starts:
                    starts[child] = 0
                    waiting.append(child)


def _raises_filter(line: str) -> bool:
    return line.startswith("prctl(PR_SET_SECCOMP") and line.rstrip().endswith("= 0")


def count(folder: Path) -> dict[str, Any]:
    """How many processes make each call, and which errors the filter may have answered with."""
    processes, refused, ioctls, total = Counter[str](), Counter[str](), Counter[str](), 0
    for lines in inside(folder):
        total += 1
        names = set()
        for line in lines:
            if (found := CALL.match(line)) is None:
                continue
            names.add(found[1])
            if found[1] not in NUMBERS:
                refused[f"{found[1]} {found[4] or 'went through'}"] += 1
            if found[1] == "ioctl":
                ioctls[found[2].split(", ")[1]] += 1
        processes.update(names)
    calls = dict(sorted(processes.items(), key=lambda pair: NUMBERS.get(pair[0], 1000)))
    return {
        "processes": total,
        "calls": calls,
        "not_allowed": dict(refused),
        "ioctl": dict(ioctls.most_common()),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "system-calls")
    parser.add_argument("--limit", type=int, default=1000, help="at most so many kernels of the corpus")
    parser.add_argument("--judge", action="store_true", help="judge, as strace has it done")
    parser.add_argument(
        "--write", action="store_true", help="write benchmarks/results/system-calls-<device>.json"
    )
    chosen = parser.parse_args(arguments)
    if chosen.judge:
        judge(chosen.device, chosen.limit)
        return 0
    shutil.rmtree(chosen.out, ignore_errors=True)
    (chosen.out / "traces").mkdir(parents=True)
    command = ["strace", "-ff", "-qq", "-s", "0", "-a", "0", "--pidns-translation", "-o", "traces/t"]
    command += [sys.executable, str(Path(__file__).resolve()), "--judge"]
    command += ["--device", chosen.device, "--limit", str(chosen.limit)]
    done = subprocess.run(command, cwd=chosen.out, stdout=subprocess.PIPE, text=True, check=True)
    verdicts = Counter(line.split()[1] for line in done.stdout.splitlines())
    report = {
        "schema_version": 1,
        "finished_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": chosen.device,
        "verdicts": dict(verdicts),
        **count(chosen.out / "traces"),
    }
    text = json.dumps(report, indent=1) + "\n"
    print(text)
    if chosen.write:
        (RESULTS / f"system-calls-{chosen.device}.json").write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
