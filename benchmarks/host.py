"""What a machine does to one process with nothing else on it: how far the same work scatters.

    python benchmarks/host.py --out build/host.json

Where a launch-bound model alone scatters, no evaluator can say how fast it is to a per cent: others use the
host. Three kinds of work, again and again from one processor core: counting in Python, launching next to
nothing, and calls of a GRU that waits for some ten thousand launches. The report has quantiles in
milliseconds, and what Linux says of waiting for a processor meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "KernelBench"), str(ROOT)]

from kernel_evaluator.walls.sandbox import waited_seconds  # noqa: E402

from leaderboard.files.store import write_atomically  # noqa: E402

SHARES = (0, 0.05, 0.25, 0.5, 0.75, 0.95, 1)
COUNTED, LAUNCHED = 100_000, 16


def count() -> None:
    """Keep one processor core busy for about a millisecond."""
    for _ in range(COUNTED):
        pass


def works(device: str) -> dict[str, Callable[[], object]]:
    """What is timed, each from a state in which the device is idle."""
    tiny = torch.zeros(1, device=device)
    model = torch.nn.GRU(128, 256, 6, batch_first=True).to(device)
    inputs = torch.randn(10, 512, 128, device=device)

    def call() -> None:
        with torch.no_grad():
            model(inputs)
        settle(device)

    return {"count": count, "launch": lambda: [tiny.add_(1) for _ in range(LAUNCHED)], "gru": call}


def settle(device: str) -> None:
    """Wait until the device is idle."""
    if device == "cuda":
        torch.cuda.synchronize()


def watch(work: Callable[[], object], device: str, seconds: float) -> dict[str, Any]:
    """Do a work for so long; quantiles of what it takes."""
    taken = []
    waited_s, end = waited_seconds(os.getpid()), time.perf_counter() + seconds
    while not taken or time.perf_counter() < end:
        settle(device)
        start = time.perf_counter()
        work()
        taken.append(1e3 * (time.perf_counter() - start))
    ordered = sorted(taken[1:] or taken)
    quantiles = {f"{share:.0%}": ordered[int(share * (len(ordered) - 1))] for share in SHARES}
    return {"n": len(ordered), "ms": quantiles, "waited_s": waited_seconds(os.getpid()) - waited_s}


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--seconds", type=float, default=5.0, help="for each kind of work")
    parser.add_argument("--out", type=Path, required=True)
    chosen = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    torch.set_num_threads(1)
    found = {name: watch(work, chosen.device, chosen.seconds) for name, work in works(chosen.device).items()}
    for name, each in found.items():
        print(name, " ".join(f"{share} {ms:.4g}" for share, ms in each["ms"].items()))
    device = torch.cuda.get_device_name() if chosen.device == "cuda" else "cpu"
    said = {"schema_version": 1, "device": device, "alone": found}
    write_atomically(chosen.out, json.dumps(said, indent=1) + "\n")


if __name__ == "__main__":
    main()
