"""Puts the evaluation server under load: clients that send good, wrong, hanging and crashing kernels.

    python benchmarks/server.py --minutes 10 --clients 8     (on the CPU, into benchmarks/results/server.json)

Every verdict is known in advance. The run fails where a request is lost, a verdict is wrong, or memory grows.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import httpx
from kernel_evaluator.records.version import EVALUATOR_VERSION, evaluator_sha256

from leaderboard.client import JudgeClient, ServerError

RESULTS = Path(__file__).parent / "results" / "server.json"
LEVEL, PROBLEM = 1, 19
HEAD = (
    "import os, signal, time\nimport torch\n\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n"
)
MIX = {
    "good": (HEAD + "        return torch.clamp(x, min=0)\n", "correct"),
    "wrong": (HEAD + "        return torch.clamp(x, min=0.5)\n", "mismatch"),
    "hanging": (HEAD + "        time.sleep(3600)\n        return x\n", "timeout"),
    "crashing": (HEAD + "        ctypes.string_at(0)\n        return x\n", "runtime_error"),
}
HANG_S = 10.0
GROWTH_ALLOWED = 1.10
"""Memory at the end over memory after the first quarter, at most."""


@dataclass(frozen=True, kw_only=True)
class Answered:
    """One request: what was sent, what came back, and how long it took."""

    kind: str
    status: str
    seconds: float


def main() -> int:
    """Run the load, print and write the figures; give 0 where every promise held."""
    options = _options()
    port = options.port or _free_port()
    server = subprocess.Popen(
        [sys.executable, "-m", "leaderboard", "serve", "--device", "cpu", "--port", str(port)],
        env={**os.environ, "KBL_API_KEY": "load", "OMP_NUM_THREADS": "1"},
    )
    url = f"http://127.0.0.1:{port}"
    memory: list[int] = []
    stopped = threading.Event()
    started = time.monotonic()
    try:
        _await_health(url)
        sampler = threading.Thread(target=_sample_memory, args=(url, memory, stopped), daemon=True)
        sampler.start()
        answers, lost = _load(url, options)
        seconds = time.monotonic() - started
        metrics = httpx.get(f"{url}/metrics").text
    finally:
        stopped.set()
        server.terminate()
        server.wait(timeout=60)
    figures = _figures(answers, lost, memory)
    figures |= {
        "seconds": round(seconds, 1),
        "clients": options.clients,
        "metrics": _final(metrics),
        **_machine(),
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(figures, indent=2) + "\n")
    print(json.dumps({name: value for name, value in figures.items() if name != "memory_mb"}, indent=2))
    return 0 if figures["held"] else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=0, help="requests a client, instead of minutes")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--out", type=Path, default=RESULTS)
    return parser.parse_args()


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
    with JudgeClient(url, "load") as client:
        for kind in _kinds(number, rounds, deadline):
            source, _ = MIX[kind]
            unique = f"# {number} {len(answers)}\n{source}"
            started = time.monotonic()
            try:
                row = client.judge(LEVEL, PROBLEM, unique, timeout_s=HANG_S, trials=2, measure=False)
            except ServerError as error:
                print(f"lost: {error}", file=sys.stderr)
                lost += 1
                continue
            answers.append(Answered(kind=kind, status=row.status.value, seconds=time.monotonic() - started))
    return answers, lost


def _kinds(number: int, rounds: int, deadline: float) -> Iterator[str]:
    """Give what a client sends: each kind in turn, clients out of step."""
    names = list(MIX)
    at = number
    while (at - number < rounds) if rounds else (time.monotonic() < deadline):
        yield names[at % len(names)]
        at += 1


def _figures(answers: list[Answered], lost: int, memory: list[int]) -> dict[str, object]:
    wrong = [answer for answer in answers if answer.status != MIX[answer.kind][1]]
    quarter = memory[len(memory) // 4 :] or [0]
    growth = statistics.median(quarter[-5:]) / max(1, statistics.median(quarter[:5]))
    seconds = sorted(answer.seconds for answer in answers)
    return {
        "sent": len(answers) + lost,
        "answered": len(answers),
        "lost": lost,
        "wrong": len(wrong),
        "wrong_verdicts": [f"{answer.kind}: {answer.status}" for answer in wrong],
        "statuses": dict(Counter(answer.status for answer in answers)),
        "latency_s": {
            "median": round(statistics.median(seconds), 2) if seconds else None,
            "p95": round(seconds[int(0.95 * (len(seconds) - 1))], 2) if seconds else None,
        },
        "memory_mb": [round(value / 1e6, 1) for value in memory],
        "memory_growth": round(growth, 3),
        "held": not lost and not wrong and bool(answers) and growth <= GROWTH_ALLOWED,
    }


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _await_health(url: str) -> None:
    for _ in range(600):
        try:
            httpx.get(f"{url}/v1/health").raise_for_status()
        except httpx.HTTPError:
            time.sleep(0.2)
        else:
            return
    raise SystemExit("the server did not come up")


def _sample_memory(url: str, memory: list[int], stopped: threading.Event) -> None:
    while not stopped.wait(2.0):
        try:
            lines = httpx.get(f"{url}/metrics").text.splitlines()
        except httpx.HTTPError:
            continue
        memory.append(int(float(next(x for x in lines if x.startswith("process_resident")).split()[1])))


def _final(metrics: str) -> dict[str, float]:
    lines = (line.rpartition(" ") for line in metrics.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}


def _machine() -> dict[str, object]:
    return {
        "device": "CPU",
        "cores": os.cpu_count(),
        "load_average": [round(load, 1) for load in os.getloadavg()],
        "machine": platform.machine(),
        "python": platform.python_version(),
        "evaluator_version": EVALUATOR_VERSION,
        "evaluator_sha256": evaluator_sha256(),
    }


if __name__ == "__main__":
    sys.exit(main())
