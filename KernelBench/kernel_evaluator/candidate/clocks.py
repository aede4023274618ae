"""The clocks on the model's side: CUDA events around a batch, and KernelBench's methods for single calls.

What they say is the running process's own claim; the oracle has its own clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

_FLUSH_BYTES = 256 << 20
METHODS = ("cuda_event", "host_time", "do_bench")


def batch_clock(device: str, run: Callable[[], list[Any]]) -> tuple[list[Any], float]:
    """Run a batch and wait for it; give its outputs and milliseconds."""
    if device != "cuda":
        start = time.perf_counter()
        outputs = run()
        return outputs, (time.perf_counter() - start) * 1e3
    before, after = _event(), _event()
    before.record()
    outputs = run()
    after.record()
    torch.cuda.synchronize()
    return outputs, before.elapsed_time(after)


def time_launches(device: str, tensor: torch.Tensor, count: int) -> float:
    """Microseconds that it takes to launch a small kernel, whatever it takes to run."""
    _wait(device)
    start = time.perf_counter()
    for _ in range(count):
        tensor.add_(1)
    elapsed_s = time.perf_counter() - start
    _wait(device)
    return elapsed_s / count * 1e6


def time_calls(device: str, call: Callable[[], Any], method: str, warmups: int, trials: int) -> list[float]:
    """Time single calls in milliseconds by `cuda_event`, `host_time` or Triton's `do_bench`."""
    if method not in METHODS:
        raise ValueError(f"timing method must be one of {METHODS}, got {method!r}")
    if method == "do_bench" and device == "cuda":
        from triton.testing import do_bench

        times: list[float] = do_bench(call, return_mode="all")
        return times
    for _ in range(warmups):
        call()
        _wait(device)
    one = _time_by_events if method == "cuda_event" and device == "cuda" else _time_by_host
    return [one(device, call) for _ in range(trials + 1)][1:]


def _time_by_events(device: str, call: Callable[[], Any]) -> float:
    _wait(device)
    torch.empty(_FLUSH_BYTES // 8, dtype=torch.int64, device=device).fill_(42)
    before, after = _event(), _event()
    before.record()
    call()
    after.record()
    _wait(device)
    return float(before.elapsed_time(after))


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


def _time_by_host(device: str, call: Callable[[], Any]) -> float:
    if device == "cuda":
        torch.empty(_FLUSH_BYTES // 8, dtype=torch.int64, device=device).fill_(42)
        _wait(device)
    start = time.perf_counter()
    call()
    _wait(device)
    return (time.perf_counter() - start) * 1e3


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()
