"""Simulates a cluster: the real scheduler, simulated judges, measured stage times, faults and stragglers.

    python benchmarks/cluster.py    (into benchmarks/results/cluster.json; prints docs/cluster.md's table)

Times of kernels are those of recorded rows (`data/results/H200`), of builds `results/builds-H200.json`.
What is assumed beside them stands in `ASSUMED`, and in the file that is written.
"""

from __future__ import annotations

import argparse
import heapq
import json
import random
import sys
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from kernel_evaluator.engines.ray import scheduler
from kernel_evaluator.engines.ray.scheduler import Event, Scheduler
from kernel_evaluator.problems.jobs import Job, Verdict, unmeasured_row
from kernel_evaluator.problems.problem_set import Problem
from kernel_evaluator.records.keys import KernelKey
from kernel_evaluator.records.rows import Environment, Status

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "cluster.json"
BUILDS = ROOT / "benchmarks" / "results" / "builds-H200.json"
KINDS = {"founders-triton": 0.5, "founders-cuda": 0.25, "pytorch-eager": 0.25}
"""Whose recorded times stand for kernels, and in which shares; those in CUDA are built first."""
ENVIRONMENT = Environment(device="simulated", gpu="simulated")


@dataclass(frozen=True, kw_only=True)
class Assumed:
    """What is not measured here."""

    gpus_a_node: int = 8
    judge_starts_s: float = 20.0
    """From nothing to a judge that is ready: processes, torch, the device."""
    new_problem_s: float = 0.25
    failing_share: float = 0.3
    """Kernels that fail before they are timed, in `failing_s`."""
    failing_s: float = 0.5
    hanging_share: float = 0.003
    hanging_s: float = 180.0
    node_lives_h: float = 24.0
    node_returns_s: float = 600.0
    judge_dies_of_kernel: float = 1e-4
    slow_nodes_share: float = 0.05
    slow_factor: float = 2.0


ASSUMED = Assumed()


@dataclass(frozen=True, kw_only=True)
class Case:
    """One simulation: how many kernels come when, and what there is to judge them."""

    name: str
    submissions: int
    kernels: int
    gpus: int
    cores: int
    over_h: float = 0.0
    """Hours over which submissions come; all at once where it is 0."""


CASES = (
    Case(name="1,000 submissions at once", submissions=1000, kernels=250, gpus=64, cores=128),
    Case(name="the same, few build cores", submissions=1000, kernels=250, gpus=64, cores=16),
    Case(name="the same, no build cores", submissions=1000, kernels=250, gpus=64, cores=0),
    Case(name="one submission", submissions=1, kernels=250, gpus=64, cores=128),
    Case(name="a million a day", submissions=1000, kernels=250, gpus=64, cores=128, over_h=6.0),
    Case(name="a million a day, 48 GPUs", submissions=1000, kernels=250, gpus=48, cores=128, over_h=6.0),
)


@dataclass
class Kernel:
    """What a job takes."""

    seconds: float
    build_s: float
    deadly: bool
    came: float


class Simulation:
    """The cluster in a time of its own, and the feed of its jobs."""

    def __init__(self, case: Case, times: dict[str, dict[int, float]], build_s: float, seed: int) -> None:
        self.case, self.dice = case, random.Random(seed)
        self.now, self._serial = 0.0, 0
        self._heap: list[tuple[float, int, str, tuple[object, ...]]] = []
        self._times, self._build_s = times, build_s
        self._kernels: dict[str, Kernel] = {}
        self._lanes: dict[str, tuple[int, int, float]] = {}
        """Of each judge: its node, how often that was lost before, until when it is busy."""
        self._problem_of: dict[str, str] = {}
        self._lost: Counter[int] = Counter()
        self._free_cores = case.cores
        self._queued: deque[tuple[int, float]] = deque()
        self._coming = self._submissions()
        self.busy_s = self.built_s = 0.0
        self.waited: list[float] = []
        self.waited_build: list[float] = []
        self._asked_build: dict[int, float] = {}
        self.nodes = -(-case.gpus // ASSUMED.gpus_a_node)
        self._slow = {n for n in range(self.nodes) if self.dice.random() < ASSUMED.slow_nodes_share}
        for node in range(self.nodes):
            self._start_node(node)

    # What the scheduler sees.

    @property
    def can_build(self) -> bool:
        """Whether there are processors for builds."""
        return self.case.cores > 0

    @property
    def is_over(self) -> bool:
        """Whether all submissions have come."""
        return not self._coming

    def take(self) -> list[tuple[Job, bool]]:
        """Give what has come by now."""
        taken = []
        while self._coming and self._coming[-1][0] <= self.now:
            _, jobs = self._coming.pop()
            for job, kernel in jobs:
                self._kernels[job.source] = kernel
                taken.append((job, kernel.build_s > 0))
        return taken

    def build(self, task: int, job: Job) -> None:
        """Have it wait for a processor."""
        self._asked_build[task] = self.now
        self._queued.append((task, self._kernels[job.source].build_s))
        self._fill_cores()

    def judge(self, judge: str, task: int, job: Job, build: object | None) -> None:
        """Have it judged after what the judge holds already."""
        node, life, until = self._lanes[judge]
        kernel = self._kernels[job.source]
        began = max(until, self.now)
        seconds = kernel.seconds * (ASSUMED.slow_factor if node in self._slow else 1.0)
        if kernel.build_s and build is None:
            seconds += kernel.build_s
        if self._problem_of.get(judge) != job.problem.sha256:
            self._problem_of[judge] = job.problem.sha256
            seconds += ASSUMED.new_problem_s
        self._lanes[judge] = (node, life, began + seconds)
        if kernel.deadly:
            self._at(began + seconds, "dead", judge, life)
        self._at(began + seconds, "judged", judge, life, task, job, seconds, began - kernel.came)

    def poll(self) -> list[Event]:
        """Go on to the next thing that happens."""
        arrival = self._coming[-1][0] if self._coming else float("inf")
        if not self._heap or (arrival <= self._heap[0][0] and arrival > self.now):
            self.now = max(self.now, arrival)
            return []
        self.now, _, what, facts = heapq.heappop(self._heap)
        return list(getattr(self, f"_{what}")(*facts))

    # What happens.

    def _at(self, when: float, what: str, *facts: object) -> None:
        self._serial += 1
        heapq.heappush(self._heap, (when, self._serial, what, facts))

    def _start_node(self, node: int) -> None:
        life = self._lost[node]
        gpus = min(ASSUMED.gpus_a_node, self.case.gpus - node * ASSUMED.gpus_a_node)
        for gpu in range(gpus):
            self._at(self.now + ASSUMED.judge_starts_s, "ready", f"{node}.{gpu}.{life}.0", node, life)
        self._at(
            self.now + self.dice.expovariate(1 / (ASSUMED.node_lives_h * 3600)), "node_lost", node, life, gpus
        )

    def _ready(self, judge: str, node: int, life: int) -> list[Event]:
        if self._lost[node] != life:
            return []
        self._lanes[judge] = (node, life, self.now)
        return [scheduler.Joined(judge=judge)]

    def _node_lost(self, node: int, life: int, gpus: int) -> list[Event]:
        self._lost[node] += 1
        gone = [judge for judge, lane in self._lanes.items() if lane[:2] == (node, life)]
        for judge in gone:
            del self._lanes[judge]
        self._at(self.now + ASSUMED.node_returns_s, "node_back", node)
        return [scheduler.Lost(judge=judge, with_node=True) for judge in gone]

    def _node_back(self, node: int) -> list[Event]:
        self._start_node(node)
        return []

    def _dead(self, judge: str, life: int) -> list[Event]:
        if judge not in self._lanes:
            return []
        node, life, _ = self._lanes.pop(judge)
        number, gpu, born, lives = judge.split(".")
        again = f"{number}.{gpu}.{born}.{int(lives) + 1}"
        self._at(self.now + ASSUMED.judge_starts_s, "ready", again, node, life)
        return [scheduler.Lost(judge=judge, with_node=False)]

    def _judged(
        self, judge: str, life: int, task: int, job: Job, seconds: float, waited: float
    ) -> list[Event]:
        if judge not in self._lanes:
            return []
        self.busy_s += seconds
        self.waited.append(waited)
        row = unmeasured_row(job, Status.CORRECT)
        return [scheduler.Judged(judge=judge, task=task, verdict=Verdict(row=row, environment=ENVIRONMENT))]

    def _fill_cores(self) -> None:
        while self._free_cores and self._queued:
            task, seconds = self._queued.popleft()
            self._free_cores -= 1
            self.built_s += seconds
            self._at(self.now + seconds, "built", task)

    def _built(self, task: int) -> list[Event]:
        self._free_cores += 1
        self.waited_build.append(self.now - self._asked_build.pop(task))
        self._fill_cores()
        return [scheduler.Built(task=task, build="built")]

    def _submissions(self) -> list[tuple[float, list[tuple[Job, Kernel]]]]:
        """What comes when, the last first."""
        problems = [
            Problem(level=level, problem_id=i, name=f"{i}_", source=f"{level} {i}")
            for level, most in ((1, 100), (2, 100), (3, 50))
            for i in range(1, most + 1)
        ]
        every_s = self.case.over_h * 3600 / max(1, self.case.submissions)
        coming = []
        for number in range(self.case.submissions):
            kind = self.dice.choices(list(KINDS), list(KINDS.values()))[0]
            jobs = []
            for at, problem in enumerate(problems[: self.case.kernels]):
                key = KernelKey(problem.level, problem.problem_id, number % 100)
                job = Job(key=key, source=f"{number} {at}", problem=problem)
                jobs.append((job, self._kernel(kind, at, number * every_s)))
            coming.append((number * every_s, jobs))
        return coming[::-1]

    def _kernel(self, kind: str, at: int, came: float) -> Kernel:
        times = self._times[kind]
        seconds = times.get(at) or self.dice.choice(list(times.values()))
        dice = self.dice.random()
        if dice < ASSUMED.hanging_share:
            seconds = ASSUMED.hanging_s
        elif dice < ASSUMED.hanging_share + ASSUMED.failing_share:
            seconds = ASSUMED.failing_s
        return Kernel(
            seconds=seconds,
            build_s=self._build_s if kind == "founders-cuda" else 0.0,
            deadly=self.dice.random() < ASSUMED.judge_dies_of_kernel,
            came=came,
        )


@dataclass
class Outcome:
    """What one simulation showed."""

    case: str
    gpus: int
    cores: int
    kernels: int
    verdicts: int
    given_up: int
    hours: float
    kernels_a_day: int
    gpu_busy: float
    cores_busy: float
    wait_p50_s: float
    wait_p99_s: float
    build_wait_p50_s: float
    nodes_lost: int
    judges_lost: int
    statuses: dict[str, int] = field(default_factory=dict)


def simulate(case: Case, times: dict[str, dict[int, float]], build_s: float) -> Outcome:
    """Run one case to its end; raise where a kernel has no verdict, or two."""
    world = Simulation(case, times, build_s, seed=1)
    boss = Scheduler(world)
    statuses: Counter[str] = Counter()
    ended = 0.0
    for verdict in boss.run(world):
        statuses[verdict.row.status.value] += 1
        ended = world.now
    kernels = case.submissions * case.kernels
    if sum(statuses.values()) != kernels:
        raise AssertionError(f"{sum(statuses.values())} verdicts for {kernels} kernels")
    return Outcome(
        case=case.name,
        gpus=case.gpus,
        cores=case.cores,
        kernels=kernels,
        verdicts=sum(statuses.values()),
        given_up=statuses[Status.INFRA_ERROR.value],
        hours=round(ended / 3600, 2),
        kernels_a_day=round(kernels / ended * 86400),
        gpu_busy=round(world.busy_s / (case.gpus * ended), 3),
        cores_busy=round(world.built_s / (case.cores * ended), 3) if case.cores else 0.0,
        wait_p50_s=round(_quantile(world.waited, 0.5), 1),
        wait_p99_s=round(_quantile(world.waited, 0.99), 1),
        build_wait_p50_s=round(_quantile(world.waited_build, 0.5), 1),
        nodes_lost=sum(world._lost.values()),
        judges_lost=boss.lost["alone"],
        statuses=dict(statuses),
    )


def measured_times() -> dict[str, dict[int, float]]:
    """Seconds of a GPU by entry and problem, as recorded."""
    first = {1: 0, 2: 100, 3: 200}
    found: dict[str, dict[int, float]] = {}
    for entry in KINDS:
        rows = json.loads((ROOT / f"data/results/H200/{entry}.json").read_text("utf-8"))["rows"]
        keyed = [(KernelKey.parse(row["key"]), row["gpu_seconds"]) for row in rows]
        found[entry] = {first[key.level] + key.problem_id - 1: s for key, s in keyed if key.level in first}
    return found


def table(outcomes: Sequence[Outcome]) -> str:
    """The outcomes as a table of Markdown."""
    lines = [
        "| case | GPUs | build cores | kernels | hours | kernels a day | GPUs busy | cores busy | "
        "wait p50 / p99 | nodes, judges lost | given up |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for each in outcomes:
        lines.append(
            f"| {each.case} | {each.gpus} | {each.cores} | {each.kernels:,} | {each.hours:.2f} | "
            f"{each.kernels_a_day:,} | {each.gpu_busy:.0%} | {each.cores_busy:.0%} | "
            f"{_span(each.wait_p50_s)} / {_span(each.wait_p99_s)} | {each.nodes_lost}, {each.judges_lost} | "
            f"{each.given_up} |"
        )
    return "\n".join(lines)


def _span(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 600 else f"{seconds / 3600:.1f} h"


def _quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[int(share * (len(ordered) - 1))] if ordered else 0.0


def main() -> int:
    """Simulate every case, write the figures, print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--case", default="", help="only cases whose names hold this")
    options = parser.parse_args()
    build_s = json.loads(BUILDS.read_text("utf-8"))["series"][-1]["median_seconds"]
    chosen = [case for case in CASES if options.case in case.name]
    outcomes = [simulate(case, measured_times(), build_s) for case in chosen]
    figures = {"assumed": asdict(ASSUMED), "build_s": build_s, "cases": [asdict(each) for each in outcomes]}
    options.out.write_text(json.dumps(figures, indent=1) + "\n")
    print(table(outcomes))
    return 0


if __name__ == "__main__":
    sys.exit(main())
