"""The processor cores from which both sides launch work, apart from the oracle's."""

from __future__ import annotations

import logging
import math
import os
import time
from contextlib import nullcontext
from functools import cache
from pathlib import Path

from kernel_evaluator.candidate.frames import Op
from kernel_evaluator.stand.sides import REFERENCE_TIMEOUT_S, Side

MIN_CORES, MAX_CHOICE = 4, 8
"""With fewer processor cores nobody is kept to one of them; half are for launches, and no more than so many.

They are taken with their siblings, the threads of the same core, so that the oracle's work slows none. Other
guests of a host slow each for a while, on a busy host four of five at a time.
"""

CORE_LASTS_S = 0.1
"""A processor core that was fast is so after this long in two of three cases, as often as any other later."""

_log = logging.getLogger(__name__)


class LaunchCore:
    """The processor core from which both sides launch work; `number` is None where nobody is kept to one."""

    def __init__(self, device: str, reference: Side) -> None:
        self._device, self._reference = device, reference
        self._chosen_at = -math.inf
        self.number: int | None = None

    def renew(self, candidate: Side, began: float = -math.inf) -> None:
        """Choose the core anew, unless that was just now, or what is to have one core `began` just now.

        Cores differ by as much as sides do: both batches of a brief round are launched from the same one.
        """
        if time.monotonic() - max(self._chosen_at, began) > CORE_LASTS_S:
            self.choose(candidate)

    def choose(self, candidate: Side | None = None) -> None:
        """Let both sides launch from a core from which the reference launches fast just now.

        A candidate is stopped for that, so that it cannot steer the choice.
        """
        cores = launch_cores(self._device)
        if not cores:
            return
        with candidate.process.paused() if candidate else nullcontext():
            probed = self._reference.ask(Op.PROBE, REFERENCE_TIMEOUT_S, cores=cores, kept=self.number)
        self.number, self._chosen_at = probed.count, time.monotonic()
        _log.debug("launches from core %d: %s", self.number, probed.text)


@cache
def launch_cores(device: str) -> tuple[int, ...]:
    """The processor cores from one of which both sides launch work; the oracle keeps to the others."""
    cores = sorted(os.sched_getaffinity(0))
    if device != "cuda" or len(cores) < MIN_CORES:
        return ()
    most = min(len(cores) // 2, MAX_CHOICE)
    chosen: set[int] = set()
    for core in reversed(cores):
        together = chosen | {core} | _siblings(core) & set(cores)
        if len(together) <= most:
            chosen = together
    chosen = chosen or set(cores[-most:])
    os.sched_setaffinity(0, set(cores) - chosen)
    return tuple(sorted(chosen))


def _siblings(core: int) -> set[int]:
    """The threads of the core that a processor thread is on, where Linux says so: `7,15` or `6-7`."""
    try:
        text = Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list").read_text("utf-8")
    except OSError:
        return set()
    spans = [part.partition("-") for part in text.strip().split(",")]
    return {each for first, _, last in spans for each in range(int(first), int(last or first) + 1)}
