"""Batches of calls under two clocks: inputs written inside the clock, caches emptied, memory taken anew."""

from __future__ import annotations

import logging
import time
from contextlib import nullcontext
from dataclasses import dataclass

import torch

from kernel_evaluator.candidate.frames import Op
from kernel_evaluator.candidate.processes import RunFailed
from kernel_evaluator.stand.sides import REFERENCE_TIMEOUT_S, Side
from kernel_evaluator.stand.stand import Stand
from kernel_evaluator.walls.sandbox import waited_seconds

_FLUSH_BYTES = 256 << 20
_DELIVERIES = 5
_LEAST_MS = 1e-6
WAKING_S = 0.0005
"""So long the reference may wait a batch for a processor on which the oracle that woke it still runs."""
_SMALL_BYTES = 1 << 20

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Alone:
    """Milliseconds of the reference alone: a call in each batch, and the most that a batch took besides."""

    call_ms: list[float]
    overhead_ms: float


def run_batch(
    stand: Stand,
    side: Side,
    order: list[int],
    seed: int,
    timeout_s: float,
    *,
    room: int | None = None,
    written: list[int] | None = None,
) -> tuple[float, float]:
    """Time a batch of calls: milliseconds by the oracle's clock and by the side's own.

    On a CPU the side is stopped while its inputs are written, and finds what it is to do when it goes on: it
    can begin nothing before. On a GPU stops would cost a kernel a tenth more, and what of its own runs holds
    up the writing, which the oracle's clock counts.
    Given `room`, the side first takes its memory anew, so many bytes more than it ever held.
    `written` are the sets whose inputs are written, where more than those of the calls.
    """
    ready = side.ask(Op.BATCH, timeout_s, core=stand.core.number, room=room)
    if ready.op is not Op.READY:
        raise RunFailed("ProtocolViolation", f"expected READY, got {ready.op.name}")
    stand.device.settle()
    waited_s = waited_seconds(side.process.pid) if side.trusted else 0.0
    is_awake = stand.device.is_gpu
    with nullcontext() if is_awake else side.process.paused():
        start = time.perf_counter()
        flushed = _hand_in(stand, side, order if written is None else written)
        written_at = time.perf_counter()
        side.send(Op.GO, order=order, seed=seed)
    done = side.receive(timeout_s, spin=stand.device.is_gpu)
    began_at = written_at if is_awake else side.process.went_on_at
    elapsed_ms = (written_at - start + time.perf_counter() - began_at) * 1e3
    del flushed
    if side.trusted:
        side.waited_s += max(0.0, waited_seconds(side.process.pid) - waited_s - WAKING_S)
    if done.count != len(order):
        raise RunFailed("ProtocolViolation", f"expected {len(order)} outputs, got {done.count}")
    if done.number > 2 * elapsed_ms + 1:
        raise RunFailed("ProtocolViolation", f"a batch of {elapsed_ms:.3f} ms took {done.number:g}, it says")
    side.worked_s += done.number / 1e3
    return elapsed_ms, done.number if done.number >= _LEAST_MS else 0.0


def _hand_in(stand: Stand, side: Side, order: list[int]) -> torch.Tensor | None:
    """Write the inputs of a batch into a side's buffer, inside the clock, and empty the L2 cache.

    What emptied the cache is given, to be kept while the batch runs.
    """
    arena = side.buffers["inputs"]
    for at in order:
        stand.inputs.write(arena, at)
    arena.publish()
    flushed = _empty_cache() if stand.device.is_gpu else None
    stand.device.settle()
    return flushed


def _empty_cache() -> torch.Tensor:
    """Write more than the L2 cache holds."""
    return torch.empty(_FLUSH_BYTES, dtype=torch.uint8, device="cuda").zero_()


def measure_alone(stand: Stand, calls: int, times: int = 3) -> Alone:
    """See what so many calls of the reference take alone, one after the other; the first batch warms up."""
    stand.core.choose()
    order = list(range(calls))
    runs = [run_batch(stand, stand.reference, order, 0, REFERENCE_TIMEOUT_S) for _ in range(times)][1:]
    return Alone(
        call_ms=[own_ms / calls for _, own_ms in runs],
        overhead_ms=max(wall_ms - own_ms for wall_ms, own_ms in runs),
    )


def deliver(stand: Stand, side: Side, indices: list[int], left_s: float) -> float:
    """Let a side deliver outputs of its last batch, each to a slot; milliseconds until the device is free."""
    places = [stand.outputs.slot(number) for number in range(len(indices))]
    stand.device.settle()
    start = time.perf_counter()
    side.deliver(indices, places, left_s, spin=stand.device.is_gpu)
    stand.device.touch()
    return (time.perf_counter() - start) * 1e3


def deliver_undisturbed(stand: Stand, indices: list[int]) -> float | None:
    """Milliseconds in which the reference delivers while nobody else has the device; None if that never is.

    On a GPU it is asked for none before, to be awake as a candidate is, and the L2 cache emptied. Processes
    have a GPU by turns: while another's kernels run, whoever asks waits for its turn.
    """
    if not stand.device.is_gpu:
        return deliver(stand, stand.reference, indices, REFERENCE_TIMEOUT_S)
    for _ in range(_DELIVERIES):
        deliver(stand, stand.reference, [], REFERENCE_TIMEOUT_S)
        _empty_cache()
        stand.device.falls_quiet()
        took_ms = deliver(stand, stand.reference, indices, REFERENCE_TIMEOUT_S)
        if not stand.device.is_alone or stand.device.is_quick():
            return took_ms
    return None


def measure_anew(stand: Stand, calls: int) -> Alone:
    """See what so many calls of the reference take with its memory taken anew."""
    place_memory(stand, stand.reference, calls, REFERENCE_TIMEOUT_S)
    return measure_alone(stand, calls, 2)


def run_timed(
    stand: Stand,
    side: Side,
    order: list[int],
    seed: int,
    left_s: float,
    *,
    written: list[int] | None = None,
) -> tuple[float, float]:
    """Milliseconds of a batch by the oracle's clock and by the side's own; `written` as in `run_batch`.

    The empty batch before brings the side's context back onto the device, which takes a while of its own. One
    more before that brings back memory that the side has spared.
    """
    if stand.is_large:
        run_batch(stand, side, [], seed, left_s, room=0)
    run_batch(stand, side, [], seed, left_s)
    wall_ms, claimed_ms = run_batch(stand, side, order, seed, left_s, written=written)
    name = "reference" if side.trusted else "candidate"
    _log.debug("%s, %d calls: %.5f ms by its clock, %.5f by ours", name, len(order), claimed_ms, wall_ms)
    return wall_ms, claimed_ms


def place_memory(stand: Stand, side: Side, calls: int, left_s: float) -> None:
    """Let a side take its memory anew, in one piece with room for the outputs of so many calls, and warm up.

    Where large blocks lie makes some kernels up to 30 % slower, for as long as they lie there. In one piece
    they lie alike on both sides; the piece itself often alternates between two places. One call is enough to
    warm up, but where a side never held so many outputs, or their memory comes in other pieces, it makes all.
    """
    missing = max(0, calls - side.calls_held)
    side.calls_held += missing
    is_small = stand.outputs.nbytes <= _SMALL_BYTES < stand.outputs.nbytes * calls
    order = list(range(calls)) if missing or is_small else [0]
    run_batch(stand, side, order, 0, left_s, room=missing * stand.outputs.nbytes)
