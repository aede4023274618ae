"""What runs inside a remote container: checks the device, judges with the local engine, answers in JSON text.

Never raises: a fault of the container is an answer that says so, since an exception would travel as a pickle.
"""

from __future__ import annotations

import dataclasses
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from kernel_evaluator.engines.epoch import EPOCH
from kernel_evaluator.engines.remote_build import unpack
from kernel_evaluator.engines.wire import Answer, pack_answer, read_builds_of, read_request
from kernel_evaluator.machine.figures import gpus
from kernel_evaluator.problems.jobs import Engine, Verdict

LEAST_MEMORY_MIB = {"H100": 79_000}
QUERY = ("name", "compute_cap", "memory.total")
CAPABILITY = {"H100": "9.0"}

Query = Callable[[], str]
MakeEngine = Callable[[Path], Engine]
"""Makes the engine that judges, given the folder of builds made in advance."""


def judge(request: str, *, gpu: str, make: MakeEngine | None = None, query: Query | None = None) -> str:
    """Judge the jobs of a request on this container's GPU, which must be of that model."""
    started = time.monotonic()
    try:
        problem = device_problem(gpu, (query or _ask_driver)())
        if problem:
            return pack_answer(Answer(fault=problem))
        verdicts = _verdicts(request, make or _local_engine)
        return pack_answer(Answer(verdicts=verdicts, seconds=time.monotonic() - started))
    except Exception as error:  # noqa: BLE001 - whatever breaks here is the container's fault, and must not be pickled
        return pack_answer(Answer(fault=f"{type(error).__name__}: {error}"[:500]))


def device_problem(gpu: str, answer: str) -> str:
    """Say what is wrong with the device that the driver describes; empty where it is the board's.

    The platform may hand out a better device than was asked for, and a time from it would not be comparable.
    """
    lines = [line for line in answer.splitlines() if line.strip()]
    if len(lines) != 1:
        return f"one device is needed, the driver lists {len(lines)}"
    name, capability, memory = (part.strip() for part in lines[0].split(","))
    known = gpus()[gpu].device_names
    if name not in known:
        return f"the device is {name!r}, the board's are {', '.join(known)}"
    if capability != CAPABILITY.get(gpu, capability) or float(memory) < LEAST_MEMORY_MIB.get(gpu, 0):
        return f"{name} with capability {capability} and {memory} MiB is not the {gpu} of the board"
    return ""


def _verdicts(request: str, make: MakeEngine) -> tuple[Verdict, ...]:
    jobs, settings = read_request(request)
    with tempfile.TemporaryDirectory() as name:
        cache = Path(name)
        cache.chmod(0o711)  # the candidate, under another uid, reads its own folder and lists none
        unpack(read_builds_of(request), cache)
        return tuple(_in_epoch(verdict) for verdict in make(cache).run(jobs, settings))


def _ask_driver() -> str:
    command = ["nvidia-smi", f"--query-gpu={','.join(QUERY)}", "--format=csv,noheader,nounits"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


def _local_engine(cache: Path) -> Engine:
    from kernel_evaluator.engines.local import LocalEngine

    return LocalEngine(cache=cache)


def _in_epoch(verdict: Verdict) -> Verdict:
    environment = dataclasses.replace(verdict.environment, image=f"epoch-{EPOCH}")
    return Verdict(row=verdict.row, environment=environment)
