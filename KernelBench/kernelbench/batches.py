"""Batches of calls under two clocks: inputs written inside the clock, caches emptied, memory drawn anew."""

from __future__ import annotations

import logging
import math
import random
import statistics
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING

import torch

from kernelbench.cores import launch_cores
from kernelbench.frames import Op
from kernelbench.memory import SharedBuffer
from kernelbench.processes import RunFailed
from kernelbench.sides import REFERENCE_TIMEOUT_S, Side

if TYPE_CHECKING:
    from kernelbench.bench import Bench

_FLUSH_BYTES = 256 << 20
_MUCH_INPUT_BYTES = 256 << 20
_WRITINGS, _MOST_BIAS = 5, 0.25
_USUAL_BIAS, _SURVEYS = 0.02, 3
_QUICK_S, _QUICK_IN_A_ROW = 2e-4, 3
_QUIET_WITHIN_S, _QUIET_TRIES = 0.05, 50
_DELIVERIES = 5
_LEAST_MS = 1e-6
_SMALL_BYTES = 1 << 20

CORE_LASTS_S = 0.1
"""A processor core that was fast is so after this long in two of three cases, as often as any other later."""

_log = logging.getLogger(__name__)
_secret = random.SystemRandom()


def run_batch(
    bench: Bench,
    side: Side,
    order: list[int],
    seed: int,
    timeout_s: float,
    *,
    room: int | None = None,
    written: list[int] | None = None,
) -> tuple[float, float]:
    """Time a batch of calls: milliseconds by the oracle's clock and by the side's own.

    Given `room`, the side first takes its memory anew, so many bytes more than it ever held.
    `written` are the sets whose inputs are written, where more than those of the calls.
    """
    ready = side.ask(Op.BATCH, timeout_s, seed=seed, core=bench.core, room=room)
    if ready.op is not Op.READY:
        raise RunFailed("ProtocolViolation", f"expected READY, got {ready.op.name}")
    bench.settle()
    start = time.perf_counter()
    flushed = _hand_in(bench, side, order if written is None else written)
    side.send(Op.GO, order=order)
    done = side.receive(timeout_s, spin=bench.device == "cuda")
    elapsed_ms = (time.perf_counter() - start) * 1e3
    del flushed
    if done.count != len(order):
        raise RunFailed("ProtocolViolation", f"expected {len(order)} outputs, got {done.count}")
    if done.number > 2 * elapsed_ms + 1:
        raise RunFailed("ProtocolViolation", f"a batch of {elapsed_ms:.3f} ms took {done.number:g}, it says")
    return elapsed_ms, done.number if done.number >= _LEAST_MS else 0.0


def _hand_in(bench: Bench, side: Side, order: list[int]) -> torch.Tensor | None:
    """Write the inputs of a batch into a side's buffer, inside the clock, and empty the L2 cache.

    Where a process begins on what is already written, both share the device, and the copy takes longer.
    What emptied the cache is given, to be kept while the batch runs.
    """
    arena = side.buffers["inputs"]
    for at in order:
        bench.write(arena, at)
    arena.publish()
    flushed = _empty_cache() if bench.device == "cuda" else None
    bench.settle()
    return flushed


def _empty_cache() -> torch.Tensor:
    """Write more than the L2 cache holds."""
    return torch.empty(_FLUSH_BYTES, dtype=torch.uint8, device="cuda").zero_()


def writing_bias(bench: Bench, calls: int) -> float:
    """Milliseconds by which it takes longer to write a call's inputs to the candidate than to the reference.

    Where their memory lies shows in gigabytes: by a fifth in one case. What is unusual is measured again, for
    a place stays and noise does not. For before a candidate has the memory.
    """
    if bench.device != "cuda" or bench.input_bytes * calls < _MUCH_INPUT_BYTES:
        return 0.0
    unusual = []
    for _ in range(_SURVEYS):
        reference_ms, candidate_ms = _times_of_writing(bench, calls)
        later_ms = candidate_ms - reference_ms
        if abs(later_ms) <= _USUAL_BIAS * reference_ms:
            return later_ms / calls
        most = _MOST_BIAS * reference_ms
        unusual.append(max(-most, min(most, later_ms)))
    return statistics.median(unusual) / calls


def _times_of_writing(bench: Bench, calls: int) -> tuple[float, float]:
    """The least milliseconds that it takes to write the inputs of so many calls to either side."""
    arenas = {"candidate": bench.candidate_buffers["inputs"], "reference": bench.reference.buffers["inputs"]}
    spent = dict.fromkeys(arenas, math.inf)
    for name in _secret.sample([*arenas] * _WRITINGS, len(arenas) * _WRITINGS):
        spent[name] = min(spent[name], _time_writing(bench, arenas[name], calls))
    return spent["reference"], spent["candidate"]


def _time_writing(bench: Bench, arena: SharedBuffer, calls: int) -> float:
    bench.settle()
    start = time.perf_counter()
    for at in range(calls):
        bench.write(arena, at)
    bench.settle()
    return (time.perf_counter() - start) * 1e3


def renew_core(bench: Bench, candidate: Side) -> None:
    """Choose the core anew, unless that was just now."""
    if time.monotonic() - bench.core_chosen_at > CORE_LASTS_S:
        choose_core(bench, candidate)


def choose_core(bench: Bench, candidate: Side | None = None) -> None:
    """Let both sides launch from a processor core from which the reference launches fast just now.

    A candidate is stopped for that, so that it cannot steer the choice.
    """
    cores = launch_cores(bench.device)
    if cores:
        with candidate.process.paused() if candidate else nullcontext():
            probed = bench.ask_reference(Op.PROBE, cores=cores, kept=bench.core)
        bench.core, bench.core_chosen_at = probed.count, time.monotonic()
        _log.debug("launches from core %d: %s", bench.core, probed.text)


def measure_alone(bench: Bench, times: int = 3) -> list[float]:
    """Milliseconds a call of the reference takes while no candidate is at work; the first batch warms up."""
    choose_core(bench)
    order = list(range(bench.calls))
    runs = [run_batch(bench, bench.reference, order, 0, REFERENCE_TIMEOUT_S)[1] for _ in range(times)]
    return [milliseconds / bench.calls for milliseconds in runs[1:]]


def deliver(bench: Bench, side: Side, indices: list[int], left_s: float) -> float:
    """Let a side deliver outputs of its last batch, each to a slot; milliseconds until the device is free."""
    places = [bench.slot(number) for number in range(len(indices))]
    bench.settle()
    start = time.perf_counter()
    side.deliver(indices, places, left_s, spin=bench.device == "cuda")
    bench.touch_device()
    return (time.perf_counter() - start) * 1e3


def deliver_undisturbed(bench: Bench, indices: list[int]) -> float | None:
    """Milliseconds in which the reference delivers while nobody else has the device; None if that never is.

    On a GPU it is asked for none before, to be awake as a candidate is, and the L2 cache emptied. Processes
    have a GPU by turns: while another's kernels run, whoever asks waits for its turn.
    """
    if bench.device != "cuda":
        return deliver(bench, bench.reference, indices, REFERENCE_TIMEOUT_S)
    for _ in range(_DELIVERIES):
        deliver(bench, bench.reference, [], REFERENCE_TIMEOUT_S)
        _empty_cache()
        falls_quiet(bench)
        took_ms = deliver(bench, bench.reference, indices, REFERENCE_TIMEOUT_S)
        if not bench.has_device_alone or bench.touch_device() < _QUICK_S:
            return took_ms
    return None


def falls_quiet(bench: Bench) -> bool:
    """Whether nobody else's kernels run on the device before long: tiny operations in a row are quick."""
    give_up = time.perf_counter() + _QUIET_WITHIN_S
    tries = in_a_row = 0
    while in_a_row < _QUICK_IN_A_ROW:
        if tries >= _QUIET_TRIES and time.perf_counter() > give_up:
            return False
        tries += 1
        in_a_row = in_a_row + 1 if bench.touch_device() < _QUICK_S else 0
    return True


def measure_anew(bench: Bench) -> float:
    """Milliseconds a call of the reference takes with its memory taken anew."""
    draw_memory(bench, bench.reference, bench.calls, REFERENCE_TIMEOUT_S)
    return measure_alone(bench, 2)[0]


def run_timed(
    bench: Bench,
    side: Side,
    order: list[int],
    seed: int,
    left_s: float,
    *,
    written: list[int] | None = None,
) -> tuple[float, float]:
    """Milliseconds of a batch by the oracle's clock and by the side's own; `written` as in `run_batch`.

    The empty batch before brings the side's context back onto the device, which takes a while of its own.
    """
    run_batch(bench, side, [], seed, left_s)
    wall_ms, claimed_ms = run_batch(bench, side, order, seed, left_s, written=written)
    name = "reference" if side.trusted else "candidate"
    _log.debug("%s, %d calls: %.5f ms by its clock, %.5f by ours", name, len(order), claimed_ms, wall_ms)
    return wall_ms, claimed_ms


def draw_memory(bench: Bench, side: Side, calls: int, left_s: float) -> None:
    """Let a side take its memory anew, in one piece with room for the outputs of so many calls, and warm up.

    Where large blocks lie makes some kernels up to 30 % slower, for as long as they lie there. In one piece
    they lie alike on both sides; the piece itself often alternates between two places. One call is enough to
    warm up, but where a side never held so many outputs, or their memory comes in other pieces, it makes all.
    """
    missing = max(0, calls - side.calls_held)
    side.calls_held += missing
    is_small = bench.output_bytes <= _SMALL_BYTES < bench.output_bytes * calls
    order = list(range(calls)) if missing or is_small else [0]
    run_batch(bench, side, order, 0, left_s, room=missing * bench.output_bytes)
