"""Why copies of references do not all come out at 1: what scatters, and what other statistics would say.

    python benchmarks/scatter.py ways
    python benchmarks/scatter.py processes --out build/processes.json

`ways` needs no device: of all evaluations of copies on record, it counts those that each way of putting their
rounds together finds more than 1 % and 3 % off, and those that are left where there are more rounds, drawn
from these. `processes` forks six processes from one. By turns each runs models that wait for launches, from
two processor cores, built twice; the report has the milliseconds of each turn.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import socket
import statistics
import sys
import tarfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from tabulate import tabulate

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "KernelBench"), str(ROOT)]

from host import settle  # noqa: E402
from kernel_evaluator.problems.problem_set import ProblemSet, read_sizes  # noqa: E402
from kernel_evaluator.timing import pairing  # noqa: E402
from kernel_evaluator.timing.measurement import Measurement  # noqa: E402
from kernel_evaluator.timing.stopping import LOOSE_HALF_WIDTH  # noqa: E402

from leaderboard.files.store import write_atomically  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results"
PROCESSES, BUILDS, TURNS, TURN_MS = 6, 2, 10, 15.0
WAITING = ("3/19", "3/20", "3/32", "3/15", "3/7")
"""Models that wait for launches."""
TIMES = (1, 1.5, 2, 3, 4)


ON_RECORD = (
    "results/H100/pytorch-eager.json",
    "results/H100-bf16/pytorch-eager-bf16.json",
    "history/H200/pytorch-eager/11.json",
    "history/H200-bf16/pytorch-eager-bf16/1.json",
)
"""Copies as `a4176e1f` judged them."""


def evaluations() -> Iterator[Measurement]:
    """Every evaluation of a copy of a reference that was on record then, first and second ones."""
    rows = [
        row for path in ON_RECORD for row in json.loads((ROOT / "data" / path).read_text("utf-8"))["rows"]
    ]
    rows += json.loads((RESULTS / "eager-alone-H200.json").read_text("utf-8"))["rows"]
    with tarfile.open(RESULTS / "repeated-H200.tar.gz") as packed:
        for member in packed.getmembers():
            if "pytorch-eager" in member.name and (file := packed.extractfile(member)):
                rows += json.load(file)["rows"]
    for row in rows:
        for said in (row["rounds"], row.get("second") and row["second"]["rounds"]):
            if said and row["status"] == "correct":
                yield Measurement.from_json(said)


def ratios(found: Measurement) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The rounds' speedups as they count, as logarithms."""
    return np.log([each.reference_ms / each.candidate_ms for each in found.counted])


def _of_sides(share: float) -> Callable[[Measurement], float]:
    def way(found: Measurement) -> float:
        sides = ([getattr(r, f"{side}_ms") for r in found.counted] for side in ("reference", "candidate"))
        reference, candidate = (np.quantile(each, share) for each in sides)
        return float(np.log(reference / candidate))

    return way


def _trimmed(share: float) -> Callable[[Measurement], float]:
    def way(found: Measurement) -> float:
        ordered = np.sort(ratios(found))
        cut = int(len(ordered) * share)
        return float(ordered[cut : len(ordered) - cut].mean())

    return way


def _weighted(weights: Callable[[Any], Any]) -> Callable[[Measurement], float]:
    """An M-estimator by its weights of what lies so many deviations off."""

    def way(found: Measurement) -> float:
        values = ratios(found)
        middle = float(np.median(values))
        deviation = 1.48 * float(np.median(np.abs(values - middle))) + 1e-9
        for _ in range(30):
            weight = weights((values - middle) / deviation)
            middle = float((weight * values).sum() / weight.sum())
        return middle

    return way


def _median(found: Measurement) -> float:
    return float(np.median(ratios(found)))


def _hodges_lehmann(found: Measurement) -> float:
    values = ratios(found)
    one, other = np.triu_indices(len(values))
    return float(np.median((values[one] + values[other]) / 2))


def _two_in_a_row(found: Measurement) -> float:
    """Of rounds that either side began, one after the other: what drifts evenly cancels."""
    values, first = ratios(found), [each.reference_first for each in found.counted]
    means = [(values[at] + values[at + 1]) / 2 for at in range(len(values) - 1) if first[at] != first[at + 1]]
    return float(np.median(means)) if means else _median(found)


WAYS: dict[str, Callable[[Measurement], float]] = {
    "the median": _median,
    "the mean": _trimmed(0.0),
    "trimmed by a tenth": _trimmed(0.1),
    "trimmed by a quarter": _trimmed(0.25),
    "Hodges and Lehmann": _hodges_lehmann,
    "Huber": _weighted(lambda off: np.minimum(1, 1 / np.maximum(np.abs(off), 1e-9))),
    "Tukey": _weighted(lambda off: np.where(np.abs(off) < 4, (1 - (off / 4) ** 2) ** 2, 0)),
    "a mode": _weighted(lambda off: np.exp(-((off / 0.7) ** 2) / 2)),
    "two rounds in a row": _two_in_a_row,
    "quotient of medians": _of_sides(0.5),
    "quotient of quartiles": _of_sides(0.25),
    "quotient of tenths": _of_sides(0.1),
    "quotient of minima": _of_sides(0.0),
}


def ways(found: Sequence[Measurement]) -> dict[str, tuple[int, int]]:
    """How many evaluations each way finds more than 1 % and more than 3 % off."""
    off = {name: [abs(float(np.expm1(way(each)))) for each in found] for name, way in WAYS.items()}
    return {name: (sum(x > 0.01 for x in each), sum(x > 0.03 for x in each)) for name, each in off.items()}


def more_rounds(found: Sequence[Measurement], seed: int = 1) -> dict[float, tuple[float, float]]:
    """So many would be off with so many times the rounds where the interval is not narrow, by drawing."""
    generator = np.random.default_rng(seed)
    off = dict.fromkeys(TIMES, (0.0, 0.0))
    for each in found:
        values = ratios(each)
        around, is_narrow = values - np.median(values), pairing.is_tight(each.counted, LOOSE_HALF_WIDTH)
        for times in TIMES:
            count = len(values) if is_narrow else int(times * len(values))
            drawn = np.abs(np.expm1(np.median(generator.choice(around, (200, count)), axis=1)))
            one, three = off[times]
            off[times] = (one + float((drawn > 0.01).mean()), three + float((drawn > 0.03).mean()))
    return off


def _serve(line: socket.socket, device: str) -> None:
    """Build and run models as asked, one line of JSON a request."""
    torch.set_grad_enabled(False)
    file = line.makefile("rw")
    for request in map(json.loads, file):
        if "problem" in request:
            model, inputs = _built(request["problem"], device)
            answer = _taken_ms(model, inputs, device, 3)
        else:
            os.sched_setaffinity(0, {request["core"]})
            _taken_ms(model, inputs, device, 2)
            answer = _taken_ms(model, inputs, device, request["calls"])
        file.write(json.dumps(answer) + "\n")
        file.flush()


def _built(problem: str, device: str) -> tuple[Any, list[Any]]:
    level, at = map(int, problem.split("/"))
    found = ProblemSet().load(level, at)
    found = found if device == "cuda" else found.reduced(read_sizes())
    module: dict[str, Any] = {}
    exec(compile(found.sized_source, problem, "exec"), module)
    torch.manual_seed(1)
    model = module["Model"](*module["get_init_inputs"]()).to(device)
    return model, [each.to(device) for each in module["get_inputs"]()]


def _taken_ms(model: Any, inputs: list[Any], device: str, calls: int) -> float:
    settle(device)
    start = time.perf_counter()
    for _ in range(calls):
        model(*inputs)
    settle(device)
    return 1e3 * (time.perf_counter() - start) / calls


def processes(device: str, problems: Sequence[str]) -> list[dict[str, Any]]:
    """What each turn of each process took, in milliseconds a call."""
    gc.freeze()
    lines = [_forked(device) for _ in range(PROCESSES)]
    cores = sorted(os.sched_getaffinity(0))
    chosen = (cores[-1], cores[len(cores) // 2])

    def ask(line: IO[str], **request: Any) -> float:
        line.write(json.dumps(request) + "\n")
        line.flush()
        return float(json.loads(line.readline()))

    turns = []
    for problem in problems:
        for build in range(BUILDS):
            built_ms = statistics.median(ask(line, problem=problem) for line in lines)
            calls = max(1, int(TURN_MS / built_ms))
            for turn in range(TURNS):
                core = chosen[turn % len(chosen)]
                for at in random.sample(range(PROCESSES), PROCESSES):
                    ms = ask(lines[at], core=core, calls=calls)
                    facts = {"problem": problem, "build": build, "core": core, "turn": turn, "process": at}
                    turns.append({**facts, "ms": round(ms, 4)})
    for line in lines:
        line.close()
    return turns


def _forked(device: str) -> IO[str]:
    ours, theirs = socket.socketpair()
    if os.fork() == 0:
        ours.close()
        _serve(theirs, device)
        os._exit(0)
    theirs.close()
    line = ours.makefile("rw")
    ours.close()
    return line


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("ways", "processes"))
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--problems", default=",".join(WAITING), help="of processes, separated by commas")
    parser.add_argument("--out", type=Path, help="where processes writes its report")
    options = parser.parse_args()
    if options.what == "ways":
        found = list(evaluations())
        rows = [[name, *off] for name, off in ways(found).items()]
        print(tabulate(rows, headers=[f"of {len(found)}", "over 1 %", "over 3 %"]))
        drawn = [[times, *off] for times, off in more_rounds(found).items()]
        print(tabulate(drawn, headers=["times the rounds", "over 1 %", "over 3 %"], floatfmt=".1f"))
        return
    turns = processes(options.device, options.problems.split(","))
    if options.out:
        write_atomically(options.out, json.dumps({"processes": turns}) + "\n")


if __name__ == "__main__":
    main()
