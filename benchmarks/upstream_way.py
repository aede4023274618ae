"""Judge one kernel as KernelBench does, in a process of its own: five trials, then a hundred timed calls.

    python benchmarks/upstream_way.py KERNEL.py PROBLEM.py --device cuda --builds FOLDER

Our own writing of its procedure. Loads the problem and the kernel, which builds it, prints `ready` and waits
for a line: from there on it uses the GPU. The last line printed is the outcome as JSON. Where the procedure
leaves a choice, the one that spares the GPU is taken: weights are made before the wait. Inputs are drawn on
the CPU, as there, unless `--inputs device` is said, which holds the device for less long.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SEED, TRIALS, WARMUPS, CALLS = 42, 5, 3, 100
TOLERANCE = 1e-4
FLUSHED_BYTES = 256 * 2**20
"""Written before each timed call, so that nothing of the inputs is left in the L2 cache."""


def main() -> int:
    """Judge the kernel; exit 0 whatever the verdict is."""
    options = _options()
    os.environ["TORCH_EXTENSIONS_DIR"] = str(options.builds)
    import torch

    reference = load(options.problem, "reference")
    torch.manual_seed(SEED)
    arguments = reference.get_init_inputs()
    torch.manual_seed(SEED)
    expected = reference.Model(*arguments)
    try:
        candidate = load(options.kernel, "candidate")
        torch.manual_seed(SEED)
        actual = candidate.ModelNew(*arguments)
    except Exception as error:  # noqa: BLE001  # whatever a submitted kernel raises is its verdict
        _wait()
        return _say("compile_error", error=f"{type(error).__name__}: {error}"[:200])
    _wait()
    try:
        return _judge(reference, expected.to(options.device), actual.to(options.device), options)
    except Exception as error:  # noqa: BLE001
        return _say("runtime_error", error=f"{type(error).__name__}: {error}"[:200])


def _wait() -> None:
    """Say that the GPU is wanted, and wait for it: what is said before the line comes may be lost."""
    print("ready", flush=True)
    sys.stdin.readline()


def _judge(reference: Any, expected: Any, actual: Any, options: argparse.Namespace) -> int:
    import torch

    generator = torch.Generator().manual_seed(SEED)
    seeds = [int(torch.randint(0, 2**32 - 1, (1,), generator=generator)) for _ in range(TRIALS)]
    passed = 0
    with torch.no_grad():
        for seed in seeds:
            inputs = _inputs(reference, seed, options)
            wanted = expected(*inputs)
            synchronize(options.device)
            given = actual(*inputs)
            synchronize(options.device)
            passed += wanted.shape == given.shape and torch.allclose(
                wanted, given, atol=TOLERANCE, rtol=TOLERANCE
            )
            del inputs, wanted, given
    times = {}
    inputs = _inputs(reference, SEED, options)
    if passed == TRIALS:
        times["runtime_ms"] = _timed(lambda: actual(*inputs), options)
    with torch.no_grad():
        times["reference_ms"] = _timed(lambda: expected(*inputs), options)
    return _say("correct" if passed == TRIALS else "mismatch", **times)


def _inputs(reference: Any, seed: int, options: argparse.Namespace) -> list[Any]:
    import torch

    torch.manual_seed(seed)
    with torch.device(options.device if options.inputs == "device" else "cpu"):
        drawn = reference.get_inputs()
    return [value.to(options.device) if isinstance(value, torch.Tensor) else value for value in drawn]


def _timed(call: Callable[[], object], options: argparse.Namespace) -> float:
    """Mean milliseconds of a call: warm-ups, then one call that is dropped, then those that count."""
    import torch

    for _ in range(WARMUPS):
        call()
        synchronize(options.device)
    times = []
    for _ in range(options.calls + 1):
        if options.device == "cpu":
            started = time.perf_counter()
            call()
            times.append((time.perf_counter() - started) * 1e3)
            continue
        torch.cuda.synchronize()
        torch.empty(FLUSHED_BYTES // 8, dtype=torch.int64, device="cuda").fill_(42)
        first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        first.record()
        call()
        last.record()
        torch.cuda.synchronize()
        times.append(first.elapsed_time(last))
    return sum(times[1:]) / options.calls


def synchronize(device: str) -> None:
    """Wait for a GPU; a CPU has nothing to wait for."""
    import torch

    if device == "cuda":
        torch.cuda.synchronize()


def load(path: Path, name: str) -> Any:
    """Import a file by its path: Triton reads the source of its kernels from there."""
    specification = importlib.util.spec_from_file_location(name, path)
    if specification is None or specification.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    specification.loader.exec_module(module)
    return module


def _say(status: str, **facts: Any) -> int:
    print(json.dumps({"status": status, **facts}), flush=True)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kernel", type=Path)
    parser.add_argument("problem", type=Path)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--inputs", default="cpu", choices=("cpu", "device"), help="where they are drawn")
    parser.add_argument("--builds", type=Path, required=True, help="folder of the extensions")
    parser.add_argument("--calls", type=int, default=CALLS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
