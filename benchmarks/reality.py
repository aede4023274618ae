"""Measure what it costs to judge kernels like those that models send, and what building beside timing does.

    python benchmarks/reality.py --work build/reality --limit-s 500
    python benchmarks/reality.py --work build/reality --parts report

The sixty kernels lie in `kernels/reality/`. The parts: `cold` and `warm` judge them with an empty and a full
cache of builds, `references` judges references twice each, while twelve builds run and while these are
stopped, `hangs` judges those that hang, and `upstream` all others as KernelBench does, but for those of which
`results/upstream-<gpu>.jsonl` says it. Repeat the command to continue what was stopped. `report` needs no
device: it prints a table and writes `benchmarks/results/reality-<gpu>.json`. Of its
`references_beside_builds`, both figures are distances of the ratio of times from 1. Second evaluations are
counted apart: `wall_s_per_kernel` ends with the last first verdict.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "KernelBench"), str(ROOT), str(ROOT / "benchmarks")]

from gpu import gpu_here  # noqa: E402
from kernel_evaluator.building.toolchain import local_arch  # noqa: E402
from kernel_evaluator.engines.local import PREPARATION_S, OracleProcess  # noqa: E402
from kernel_evaluator.oracle_process import job_to_json  # noqa: E402
from kernel_evaluator.problems.jobs import Job, Settings  # noqa: E402
from kernel_evaluator.problems.problem_set import Problem, ProblemSet, read_sizes  # noqa: E402
from kernel_evaluator.records.keys import KernelKey  # noqa: E402
from kernel_evaluator.walls import sandbox  # noqa: E402
from reality_report import report, rows_of, table, upstream_lines, write  # noqa: E402

KERNELS = ROOT / "benchmarks" / "kernels" / "reality"
KBL = [sys.executable, "-m", "leaderboard"]
PARTS = ("cold", "warm", "references", "hangs", "upstream", "report")
ON_A_CPU = ("library", "loops", "memory", "wrong")
"""Of these kinds, what compiles nothing runs without a GPU."""

LIMIT_S, HANG_LIMIT_S = 180.0, 30.0
"""KernelBench's limit for a kernel, and ours for those that are known to hang."""
STANDING_BY = 8
"""So many kernels load and build for KernelBench's way while another has the GPU."""

STOP_S = 20.0
NAMED = ("1/8", "1/11", "1/16", "1/41", "1/60", "1/75", "2/85")
"""Problems whose times builds were seen to change; every fifth of the others is taken with them."""


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """A file of the corpus; its docstring's last line names its kind."""

    key: KernelKey
    kind: str
    source: str
    path: Path

    @property
    def needs_gpu(self) -> bool:
        """Whether it cannot run on a CPU."""
        return self.kind not in ON_A_CPU or "load_inline" in self.source


def corpus() -> list[Kernel]:
    """Read the kernels in the order of their keys."""
    return sorted(map(_read, KERNELS.glob("level_*.py")), key=lambda kernel: kernel.key)


def _read(path: Path) -> Kernel:
    source = path.read_text("utf-8")
    said = re.search(r"^kind: ([a-z-]+)$", ast.get_docstring(ast.parse(source)) or "", re.MULTILINE)
    if said is None:
        raise ValueError(f"{path}: the docstring must end with a line `kind: …`")
    return Kernel(key=KernelKey.parse(path.stem), kind=said[1], source=source, path=path)


def reference_problems() -> list[str]:
    """The problems whose times are compared without and with builds: sixty or so of levels 1 to 3."""
    problems = ProblemSet()
    every = [f"{level}/{at}" for level in (1, 2, 3) for at in problems.ids(level)]
    return [problem for place, problem in enumerate(every) if place % 5 == 0 or problem in NAMED]


class Work:
    """The folder of what was measured: `runs.jsonl` says which parts ran for how long, and which ended."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.folder: Path = options.work.resolve()
        self.device: str = options.device
        self.calls: int = options.calls
        self.inputs: str = options.inputs
        self.deadline = time.monotonic() + options.limit_s
        chosen = options.only.split(",") if options.only else []
        self.kernels = [
            kernel
            for kernel in corpus()
            if (options.device == "cuda" or not kernel.needs_gpu)
            and (not chosen or f"{kernel.key.level}/{kernel.key.problem_id}" in chosen)
        ]
        self.references = options.references.split(",") if options.references else reference_problems()
        self.folder.mkdir(parents=True, exist_ok=True)

    def left_s(self) -> float:
        """Seconds until the limit."""
        return self.deadline - time.monotonic()

    def note(self, name: str, line: dict[str, Any]) -> None:
        """Add a line to a record."""
        with (self.folder / f"{name}.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def lines(self, name: str) -> list[dict[str, Any]]:
        """The lines of a record."""
        path = self.folder / f"{name}.jsonl"
        return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []

    def has_ended(self, part: str) -> bool:
        """Whether a part is whole."""
        return any(line["part"] == part and line["ended"] for line in self.lines("runs"))

    def is_built(self) -> bool:
        """Whether the builds of the kernels are in the folder, which another machine's records lack."""
        compiled = any("load_inline" in kernel.source for kernel in self.kernels)
        return self.has_ended("cold") and (not compiled or (self.folder / "builds").is_dir())

    def note_run(self, part: str, started: float, *, ended: bool) -> None:
        """Record that a part ran, from `started` by `time.time` until now."""
        self.note(
            "runs", {"part": part, "started": started, "seconds": time.time() - started, "ended": ended}
        )


def main() -> int:
    """Do what is left of the parts asked for; exit 1 where something is left."""
    options = _options()
    work = Work(options)
    wanted = options.parts.split(",")
    unknown = set(wanted) - set(PARTS)
    if unknown:
        sys.exit(f"error: --parts must be of {', '.join(PARTS)}; got {', '.join(sorted(unknown))}")
    doing: dict[str, Callable[[], bool]] = {
        "cold": partial(judge_corpus, work, "cold", hanging=False),
        "warm": partial(judge_corpus, work, "warm", hanging=False),
        "references": partial(judge_references, work),
        "hangs": partial(judge_corpus, work, "hangs", hanging=True),
        "upstream": partial(judge_upstream, work),
    }
    for part, do in doing.items():
        if part in wanted and not work.has_ended(part) and work.left_s() > 0:
            if part == "warm" and not work.is_built():
                print("warm: waits for cold, which fills the cache in the same folder")
                continue
            started, ended = time.time(), False
            try:
                ended = do()
            finally:
                work.note_run(part, started, ended=ended)
            print(f"{part}: {'done' if ended else 'stopped'} after {time.time() - started:.0f} s", flush=True)
    if "report" in wanted:
        found = report(work.folder, {str(kernel.key): kernel.kind for kernel in work.kernels})
        print(table(found))
        print(f"written to {write(found, options.out)}")
    left = [part for part in wanted if part in doing and not work.has_ended(part)]
    print(f"left: {', '.join(left) or 'nothing'}")
    return 1 if left else 0


def judge_corpus(work: Work, part: str, *, hanging: bool) -> bool:
    """Run `kbl evaluate` on the corpus; say whether it came to its end."""
    kernels = [kernel for kernel in work.kernels if (kernel.kind == "hangs") == hanging]
    if not kernels:
        return True
    entry = work.folder / ("reality-hangs.json" if hanging else "reality.json")
    sources = {str(kernel.key): kernel.source for kernel in kernels}
    metadata = {"display_name": "Reality", "notes": "Kernels like those that models send."}
    entry.write_text(json.dumps({"metadata": metadata, "kernels": sources}, indent=1) + "\n", "utf-8")
    if part == "cold" and not any(line["part"] == "cold" for line in work.lines("runs")):
        shutil.rmtree(work.folder / "builds", ignore_errors=True)
    limit = ["--timeout", str(HANG_LIMIT_S)] if hanging else []
    return _evaluate(work, entry, part, limit, set(sources))


def judge_references(work: Work) -> bool:
    """Judge a copy of each reference twice in a row, with and without builds beside.

    One oracle judges both, and which comes first alternates: else the host's other guests and the oracle's
    processes would differ as well.
    """
    copies = json.loads((ROOT / "submissions" / "pytorch-eager.json").read_text("utf-8"))["kernels"]
    done = {line["problem"] for line in work.lines("references")}
    with _builds_beside(work) as builder, _oracle(work) as oracle:
        for place, problem in enumerate(work.references):
            if problem in done:
                continue
            key = KernelKey(*map(int, problem.split("/")))
            job = Job(key=key, source=copies[str(key)], problem=_problem(work, key))
            pair = []
            for beside in (False, True) if place % 2 == 0 else (True, False):
                if work.left_s() <= 0:
                    return False
                with nullcontext() if beside else _stopped(builder.pid):
                    oracle.send(job_to_json(job, None))
                    answer = oracle.receive(LIMIT_S + PREPARATION_S)
                if answer is None or builder.poll() is not None:
                    sys.exit("error: the oracle, or the process that builds beside, has ended")
                line = {"problem": problem, "key": str(key), "beside": beside, "row": answer["row"]}
                pair.append({**line, "gpu": answer["environment"]["gpu"]})
            for line in pair:
                work.note("references", line)
    return True


@contextmanager
def _builds_beside(work: Work) -> Iterator[subprocess.Popen[str]]:
    """A process that keeps twelve builds going."""
    script = str(ROOT / "benchmarks" / "build_beside.py")
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as afresh,
        _started(
            [sys.executable, script, afresh, str(work.folder / "built.jsonl")], subprocess.PIPE
        ) as builder,
    ):
        assert builder.stdout is not None
        if builder.stdout.readline() != "building\n":
            sys.exit("error: nothing builds beside: the process that should build has ended")
        yield builder


@contextmanager
def _oracle(work: Work) -> Iterator[OracleProcess]:
    """An oracle that judges one job at a time, as `kbl evaluate` starts one."""
    settings = Settings(device=work.device, sizes="full" if work.device == "cuda" else "reduced")
    oracle = OracleProcess("", settings)
    try:
        yield oracle
    finally:
        oracle.close()


@contextmanager
def _stopped(pid: int) -> Iterator[None]:
    """Within this a process and all it started stand still."""
    family = sandbox.stop_all(pid)
    try:
        yield
    finally:
        sandbox.signal_all({*family, *sandbox.descendants(pid)}, signal.SIGCONT)


def judge_upstream(work: Work) -> bool:
    """Judge kernels as KernelBench does, one process a kernel and one at a time on the device.

    Those that hang are left out: each would hold the device to the limit, and no figure takes them.
    """
    gpu = gpu_here() if work.device == "cuda" else "CPU"
    done = {line["key"] for line in upstream_lines(work.folder, gpu)}
    left = [kernel for kernel in work.kernels if str(kernel.key) not in done and kernel.kind != "hangs"]
    # In no order that means anything: what is done when time is up stands for all.
    left.sort(key=lambda kernel: hashlib.sha256(str(kernel.key).encode()).digest())
    arch = {"TORCH_CUDA_ARCH_LIST": local_arch()}  # else each build would open the device to ask it
    with contextlib.ExitStack() as stack:
        standing: list[tuple[Kernel, subprocess.Popen[str]]] = []
        while (left or standing) and work.left_s() > 0:
            while left and len(standing) < STANDING_BY:
                kernel = left.pop(0)
                command = _upstream_command(work, kernel)
                standing.append((kernel, stack.enter_context(_started(command, subprocess.PIPE, arch))))
            kernel, process = standing.pop(0)
            outcome = _upstream_outcome(process, work)
            if outcome is None:
                return False
            said = {"key": str(kernel.key), "gpu": gpu, "inputs": work.inputs}
            work.note("upstream", {**said, **outcome})
        return not left and not standing


def _upstream_command(work: Work, kernel: Kernel) -> list[str]:
    problem = _problem(work, kernel.key)
    path = work.folder / "problems" / f"{kernel.key}.py"
    path.parent.mkdir(exist_ok=True)
    path.write_text(problem.sized_source, "utf-8")
    builds = work.folder / "extensions" / str(kernel.key)
    builds.mkdir(parents=True, exist_ok=True)
    for lock in builds.glob("*/lock"):  # of a build that was stopped: the next waits for it for ever
        lock.unlink()
    script = str(ROOT / "benchmarks" / "upstream_way.py")
    options = ["--device", work.device, "--inputs", work.inputs, "--calls", str(work.calls)]
    return [sys.executable, script, str(kernel.path), str(path), "--builds", str(builds), *options]


def _problem(work: Work, key: KernelKey) -> Problem:
    problem = ProblemSet().load(key.level, key.problem_id)
    return problem.reduced(read_sizes()) if work.device == "cpu" else problem


def _upstream_outcome(process: subprocess.Popen[str], work: Work) -> dict[str, Any] | None:
    """Let a process that stands by have the device; None where the time is up before it is done."""
    assert process.stdout is not None
    timer = threading.Timer(max(work.left_s(), 0.1), process.kill)
    timer.start()
    is_ready = any(line == "ready\n" for line in iter(process.stdout.readline, ""))
    timer.cancel()
    if not is_ready:
        died = {"status": "compile_error", "error": "the process died", "gpu_s": 0.0}
        return died if work.left_s() > 0 else None
    started = time.monotonic()
    limit_s = min(LIMIT_S, max(work.left_s(), 0.1))
    try:
        said, _ = process.communicate("go\n", timeout=limit_s)
    except subprocess.TimeoutExpired:
        return {"status": "timeout", "gpu_s": LIMIT_S} if limit_s == LIMIT_S else None
    seconds = time.monotonic() - started
    lines = [line for line in said.splitlines() if line.startswith('{"status"')]
    outcome = json.loads(lines[-1]) if lines else {"status": "runtime_error", "error": "the process died"}
    # What fails to compile has not touched the device.
    return {**outcome, "gpu_s": 0.0 if outcome["status"] == "compile_error" else seconds}


def _evaluate(work: Work, entry: Path, part: str, arguments: list[str], keys: set[str]) -> bool:
    """Run `kbl evaluate` until its end or the limit; say whether all these kernels have a row.

    Exit status 1 says that a kernel has no verdict, and is that of a command which could not start, too.
    """
    command = [*KBL, "evaluate", str(entry), "--device", work.device, *arguments]
    command += ["--data", str(work.folder / "none"), "--work", str(work.folder / part)]
    environment = {"KERNELBENCH_CACHE": str(work.folder / "builds")}
    with (
        (work.folder / f"{part}.log").open("a", encoding="utf-8") as log,
        _started(command, log, environment) as process,
        contextlib.suppress(subprocess.TimeoutExpired),
    ):
        process.wait(max(work.left_s(), 0.1))
        return process.returncode in (0, 1) and keys <= set(rows_of(work.folder / part))
    return False


@contextmanager
def _started(
    command: list[str], output: Any, environment: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """A process group of its own, which is gone at the end."""
    paths = [str(ROOT / "KernelBench"), str(ROOT), *filter(None, sys.path)]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "MAX_JOBS": "2", **(environment or {})},
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=subprocess.DEVNULL if output == subprocess.PIPE else subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)  # it ends its own processes, those in groups of their own too
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_S)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "reality")
    parser.add_argument("--parts", default=",".join(PARTS), help="separated by commas")
    parser.add_argument("--limit-s", type=float, default=1e6)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--only", default="", help="only these problems of the corpus: 1/19,2/40")
    parser.add_argument("--references", default="", help="the problems of references")
    parser.add_argument("--inputs", default="cpu", choices=("cpu", "device"), help="of upstream's way")
    parser.add_argument("--calls", type=int, default=100, help="timed calls of upstream's way")
    parser.add_argument("--out", type=Path, help="the report; by default benchmarks/results/reality-GPU.json")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
