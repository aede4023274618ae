"""Puts the evaluation server under load: clients that send kernels of every kind, some of them again.

    python benchmarks/server.py --minutes 10 --clients 8     (on the CPU, into benchmarks/results/server.json)
    python benchmarks/server.py --device cuda --out benchmarks/results/server.gpu.json

Before the load kernels are sent one at a time, each twice. Every verdict is known in advance. The run fails
where a request is lost or answered with 5xx, a verdict is wrong, or memory or descriptors grow.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import httpx
from adapters import free_port
from kernel_evaluator.records.version import EVALUATOR_VERSION, evaluator_sha256

from leaderboard.client import JudgeClient, ServerError

RESULTS = Path(__file__).parent / "results" / "server.json"
LEVEL, PROBLEM = 1, 19
HEAD = """import ctypes, os, signal, time
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
"""
MIX = {
    "good": (HEAD + "        return torch.clamp(x, min=0)\n", "correct"),
    "wrong": (HEAD + "        return torch.clamp(x, min=0.5)\n", "mismatch"),
    "hanging": (HEAD + "        time.sleep(3600)\n        return x\n", "timeout"),
    "crashing": (HEAD + "        ctypes.string_at(0)\n        return x\n", "runtime_error"),
    "repeated": (HEAD + "        return x.clamp(min=0)\n", "correct"),
}
HANG_S = 10.0
"""Seconds that a kernel that hangs may take; others have the usual time, which a busy machine may need."""
GROWTH_ALLOWED = 1.10
"""Memory at the end over memory after the first quarter, at most."""


@dataclass(frozen=True, kw_only=True)
class Answered:
    """One request: what was sent, what came back, and how long it took."""

    kind: str
    status: str
    seconds: float
    remembered: bool


def main() -> int:
    """Run the load, print and write the figures; give 0 where every promise held."""
    options = _options()
    port = options.port or free_port()
    folder = tempfile.TemporaryDirectory()  # gone with the program
    arguments = ["--device", options.device, "--port", str(port), "--memory", f"{folder.name}/verdicts"]
    server = subprocess.Popen(
        [sys.executable, "-m", "leaderboard", "serve", *arguments], env={**os.environ, "KBL_API_KEY": "load"}
    )
    url = f"http://127.0.0.1:{port}"
    samples: list[dict[str, float]] = []
    stopped = threading.Event()
    try:
        _await_health(url)
        alone = _alone(url, options.alone)
        started = time.monotonic()
        sampler = threading.Thread(target=_sample, args=(url, samples, stopped), daemon=True)
        sampler.start()
        answers, lost = _load(url, options)
        seconds = time.monotonic() - started
        metrics = httpx.get(f"{url}/metrics").text
    finally:
        stopped.set()
        server.terminate()
        server.wait(timeout=60)
    figures = _figures(answers, lost, samples)
    figures |= {
        "alone": alone,
        "seconds": round(seconds, 1),
        "clients": options.clients,
        "metrics": _final(metrics),
        **_machine(options.device),
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(figures, indent=2) + "\n")
    print(
        json.dumps(
            {name: value for name, value in figures.items() if name not in ("memory_mb", "descriptors")},
            indent=2,
        )
    )
    return 0 if figures["held"] else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--alone", type=int, default=20, help="kernels that are sent one at a time first")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=0, help="requests a client, instead of minutes")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--out", type=Path, default=RESULTS)
    return parser.parse_args()


def _alone(url: str, count: int) -> dict[str, dict[str, float | None]]:
    """Send kernels one at a time, each twice; give what new and repeated ones took."""
    new: list[float] = []
    repeated: list[float] = []
    with JudgeClient(url, "load") as client:
        for number in range(count):
            source = f"# alone {number}\n{MIX['good'][0]}"
            for taken in (new, repeated):
                started = time.monotonic()
                if not client.judge(LEVEL, PROBLEM, source, measure=False).is_correct:
                    raise SystemExit("a good kernel was not found correct")
                taken.append(time.monotonic() - started)
    return {"new_s": _spread(new), "repeated_s": _spread(repeated)}


def _spread(seconds: list[float]) -> dict[str, float | None]:
    ordered = sorted(seconds)
    return {
        name: round(ordered[int(share * (len(ordered) - 1))], 4) if ordered else None
        for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
    }


def _load(url: str, options: argparse.Namespace) -> tuple[list[Answered], int]:
    deadline = time.monotonic() + 60 * options.minutes
    with ThreadPoolExecutor(options.clients) as pool:
        running = [
            pool.submit(_client, url, number, options.rounds, deadline) for number in range(options.clients)
        ]
        parts = [future.result() for future in running]
    return [answer for answers, _ in parts for answer in answers], sum(lost for _, lost in parts)


def _client(url: str, number: int, rounds: int, deadline: float) -> tuple[list[Answered], int]:
    answers: list[Answered] = []
    lost = 0
    with JudgeClient(url, "load", patience_s=0) as client:  # what would have to be asked again is lost
        for kind in _kinds(number, rounds, deadline):
            source, _ = MIX[kind]
            unique = source if kind == "repeated" else f"# {number} {len(answers)}\n{source}"
            limit = {"timeout_s": HANG_S} if kind == "hanging" else {}
            started = time.monotonic()
            try:
                ticket = client.submit(
                    LEVEL, PROBLEM, unique, trials=2, measure=len(answers) % 4 == 3, **limit
                )
                row = ticket.row or client.wait(ticket.id)
            except ServerError as error:
                print(f"lost: {error}", file=sys.stderr)
                lost += 1
                continue
            taken = time.monotonic() - started
            answers.append(
                Answered(kind=kind, status=row.status.value, seconds=taken, remembered=ticket.row is not None)
            )
    return answers, lost


def _kinds(number: int, rounds: int, deadline: float) -> Iterator[str]:
    """Give what a client sends: each kind in turn, clients out of step."""
    names = list(MIX)
    at = number
    while (at - number < rounds) if rounds else (time.monotonic() < deadline):
        yield names[at % len(names)]
        at += 1


def _figures(answers: list[Answered], lost: int, samples: list[dict[str, float]]) -> dict[str, object]:
    wrong = [answer for answer in answers if answer.status != MIX[answer.kind][1]]
    memory = [sample["process_resident_memory_bytes"] for sample in samples]
    descriptors = [sample["process_open_fds"] for sample in samples]
    growth, more_open = _growth(memory), _growth(descriptors)
    seconds = {
        "new": [each.seconds for each in answers if not each.remembered and each.kind != "hanging"],
        "repeated": [each.seconds for each in answers if each.remembered],
        "hanging": [each.seconds for each in answers if each.kind == "hanging"],
    }
    return {
        "sent": len(answers) + lost,
        "answered": len(answers),
        "lost": lost,
        "wrong": len(wrong),
        "wrong_verdicts": [f"{answer.kind}: {answer.status}" for answer in wrong],
        "statuses": dict(Counter(answer.status for answer in answers)),
        "latency_s": {name: _spread(values) for name, values in seconds.items()},
        "memory_mb": [round(value / 1e6, 1) for value in memory],
        "memory_growth": round(growth, 3),
        "descriptors": [int(value) for value in descriptors],
        "descriptor_growth": round(more_open, 3),
        "held": not lost and not wrong and bool(answers) and max(growth, more_open) <= GROWTH_ALLOWED,
    }


def _growth(values: list[float]) -> float:
    """What it is at the end over what it was after the first quarter."""
    quarter = values[len(values) // 4 :] or [0]
    return statistics.median(quarter[-5:]) / max(1, statistics.median(quarter[:5]))


def _await_health(url: str) -> None:
    for _ in range(600):
        try:
            httpx.get(f"{url}/v1/health").raise_for_status()
        except httpx.HTTPError:
            time.sleep(0.2)
        else:
            return
    raise SystemExit("the server did not come up")


def _sample(url: str, samples: list[dict[str, float]], stopped: threading.Event) -> None:
    while not stopped.wait(2.0):
        try:
            samples.append(_final(httpx.get(f"{url}/metrics").raise_for_status().text))
        except httpx.HTTPError:
            continue


def _final(metrics: str) -> dict[str, float]:
    lines = (line.rpartition(" ") for line in metrics.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}


def _machine(device: str) -> dict[str, object]:
    return {
        "device": device,
        "cores": os.cpu_count(),
        "load_average": [round(load, 1) for load in os.getloadavg()],
        "machine": platform.machine(),
        "python": platform.python_version(),
        "evaluator_version": EVALUATOR_VERSION,
        "evaluator_sha256": evaluator_sha256(),
    }


if __name__ == "__main__":
    sys.exit(main())
