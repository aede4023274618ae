"""Runs an adapter with the real library against the real server on the CPU and a fake model server.

    python benchmarks/adapters.py verifiers     (in an environment with verifiers and uv)
    python benchmarks/adapters.py openenv       (in an environment with openenv-core)
    python benchmarks/adapters.py inspect       (with `.[evaluate,inspect]`, not editable, and openai)
    python benchmarks/adapters.py reward

The fake model writes a wrong kernel first, and a right one once it has read what the evaluator found. The
server runs with the Python that `KBL_PYTHON` names, which needs torch. The Inspect task asks no server: it
judges by itself.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

WRONG = """import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return x + 1
"""
SHIM = """from leaderboard.adapters.verifiers_env import KernelEnv, KernelTaskset

__all__ = ["KernelEnv", "KernelTaskset"]
"""
RIGHT = WRONG.replace("x + 1", "x.clamp(min=0)")


class _Model(BaseHTTPRequestHandler):
    """An OpenAI-compatible model with two answers, also streamed."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """List the models."""
        self._send(json.dumps({"object": "list", "data": [{"id": "fake", "object": "model"}]}).encode())

    def do_POST(self) -> None:
        """Answer."""
        asked = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
        turns = sum(message["role"] == "assistant" for message in asked.get("messages", []))
        message = {"role": "assistant", "content": f"```python\n{RIGHT if turns else WRONG}```"}
        base = {"id": "x", "created": int(time.time()), "model": "fake"}
        usage = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
        if asked.get("stream"):
            first = {"index": 0, "delta": message, "finish_reason": None}
            last = {"index": 0, "delta": {}, "finish_reason": "stop"}
            chunks = [
                {**base, "object": "chat.completion.chunk", "choices": [first]},
                {**base, "object": "chat.completion.chunk", "choices": [last], "usage": usage},
            ]
            lines = b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks)
            self._send(lines + b"data: [DONE]\n\n", "text/event-stream")
        else:
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            whole = {**base, "object": "chat.completion", "choices": [choice], "usage": usage}
            self._send(json.dumps(whole).encode())

    def _send(self, body: bytes, kind: str = "application/json") -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def model() -> Iterator[str]:
    """Serve the fake model; give its base URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()


@contextmanager
def judge(folder: Path) -> Iterator[str]:
    """Run `kbl serve` on the CPU; give its URL."""
    port = free_port()
    command = [os.environ.get("KBL_PYTHON", sys.executable), "-m", "leaderboard", "serve", "--device", "cpu"]
    server = subprocess.Popen([*command, "--port", str(port), "--memory", str(folder / "verdicts")])
    url = f"http://127.0.0.1:{port}"
    try:
        await_answer(f"{url}/v1/health")
        yield url
    finally:
        server.terminate()
        server.wait(timeout=60)


def await_answer(url: str) -> None:
    """Wait until somebody answers there."""
    for _ in range(300):
        try:
            urllib.request.urlopen(url, timeout=5)
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise SystemExit(f"{url} does not answer")


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def with_verifiers(folder: Path, model_url: str) -> list[dict[str, object]]:
    """Evaluate with `vf-eval`, one turn and several: it says the rewards itself; count its traces."""
    (folder / "kernels.py").write_text(SHIM)
    told = []
    for turns in (1, 3):
        out = folder / f"turns-{turns}"
        command = [str(Path(sys.executable).with_name("vf-eval")), "kernels"]
        command += ["-m", "fake", "--client.base-url", model_url, "--client.api-key-var", "FAKE_KEY"]
        command += ["--no-push", "-o", str(out), "--env.max-turns", str(turns)]
        command += [
            "--env.taskset.levels",
            "1",
            "--env.taskset.problem-ids",
            "19",
            "--env.taskset.task.measure",
            "False",
        ]
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment = {**os.environ, "FAKE_KEY": "x", "PATH": path, "PYTHONPATH": str(folder)}
        done = subprocess.run(command, check=False, env=environment)
        if done.returncode:
            raise SystemExit(f"vf-eval ended with {done.returncode}")
        traces = [line for path in out.rglob("traces.jsonl") for line in path.read_text().splitlines()]
        told.append({"turns": turns, "traces": len(traces)})
    return told


def with_openenv(folder: Path, model_url: str) -> list[dict[str, object]]:
    """Serve the environment with uvicorn, and play an episode with OpenEnv's own client."""
    from openenv.core import GenericAction, GenericEnvClient

    port = free_port()
    arguments = ["leaderboard.adapters.openenv_env:app", "--host", "127.0.0.1", "--port", str(port)]
    server = subprocess.Popen([sys.executable, "-m", "uvicorn", *arguments, "--log-level", "warning"])
    told = []
    try:
        await_answer(f"http://127.0.0.1:{port}/health")
        with GenericEnvClient(base_url=f"http://127.0.0.1:{port}").sync() as client:
            begun = client.reset(level=1, problem_id=19)
            told.append({"prompt": begun.observation["words"][:60]})
            for source in (WRONG, RIGHT):
                step = client.step(GenericAction(reply=f"```python\n{source}```"))
                told.append({"reward": step.reward, "done": step.done, "status": step.observation["status"]})
    finally:
        server.terminate()
        server.wait(timeout=60)
    return told


def with_inspect(folder: Path, model_url: str) -> list[dict[str, object]]:
    """Evaluate with `inspect eval`: the first answer alone, and the one after the checker's objection."""
    from inspect_ai.log import list_eval_logs, read_eval_log

    told: list[dict[str, object]] = []
    for regenerations in (0, 1):
        logs = folder / f"regenerations-{regenerations}"
        command = [sys.executable, "-m", "inspect_ai", "eval", "leaderboard/kernelbench"]
        command += ["--model", "openai-api/fake/fake", "--log-dir", str(logs), "--display", "none"]
        options = {"splits": "level_1", "problem_ids": 19, "device": "cpu", "measure_performance": "false"}
        for name, value in {**options, "max_regenerations": regenerations}.items():
            command += ["-T", f"{name}={value}"]
        environment = {**os.environ, "FAKE_API_KEY": "x", "FAKE_BASE_URL": model_url}
        subprocess.run(command, check=True, env=environment)
        [log] = [read_eval_log(each) for each in list_eval_logs(str(logs))]
        [sample] = log.samples or []
        [score] = (sample.scores or {}).values()
        told.append({"max_regenerations": regenerations, **score.value, "explanation": score.explanation})
    return told


def with_reward(folder: Path, model_url: str) -> list[dict[str, object]]:
    """Have the server judge both answers for the reward function."""
    from leaderboard.reward import reward

    told: list[dict[str, object]] = []
    for source in (WRONG, RIGHT):
        found = reward(source, 1, 19, measure=False)
        told.append({"value": round(found.value, 2), "status": found.status, "parts": found.parts})
    return told


def main() -> int:
    """Run one adapter and print what it told."""
    run = {
        "verifiers": with_verifiers,
        "openenv": with_openenv,
        "inspect": with_inspect,
        "reward": with_reward,
    }[sys.argv[1]]
    with tempfile.TemporaryDirectory() as name, model() as model_url, judge(Path(name)) as url:
        os.environ.update(KBL_URL=url, KBL_MEASURE="0")
        for line in run(Path(name), model_url):
            print(json.dumps(line))
    return 0


if __name__ == "__main__":
    sys.exit(main())
