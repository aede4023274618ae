"""What remote calls cost, by this side's clock: from when one is sent until it is over, however it ends.

No container is asked, so none can say less; a call that is lost costs what it took until that was known.
Seconds that a platform does not charge, such as those of waiting for a machine, are counted too.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kernel_evaluator.engines.epoch import (
    Price,
    building_usd_per_second,
    judging_usd_per_second,
    most_usd_between_looks,
)


class OverTheCapError(Exception):
    """What is left of the money would not last until the next look."""


class Meter:
    """Counts calls, seconds and the most dollars they can cost; says when to stop. For many threads."""

    def __init__(
        self, price: Price | None, max_usd: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._price = price
        self._clock = clock
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._open: dict[int, tuple[float, float]] = {}
        self._ended_usd = 0.0
        self._seconds = 0.0
        self._calls = 0
        self.max_usd = max_usd

    @contextmanager
    def judging(self) -> Iterator[None]:
        """Count a call of a container with a GPU; raise OverTheCapError where it must not start."""
        with self._running(0.0 if self._price is None else judging_usd_per_second(self._price)):
            yield

    @contextmanager
    def building(self) -> Iterator[None]:
        """Count a call of a container that compiles; raise OverTheCapError where it must not start."""
        with self._running(0.0 if self._price is None else building_usd_per_second(self._price)):
            yield

    def check(self) -> None:
        """Raise OverTheCapError where the cap could be passed before anybody looks again."""
        usd = self.usd
        if self._price is not None and usd + most_usd_between_looks(self._price) > self.max_usd:
            raise OverTheCapError(
                f"${usd:.2f} of ${self.max_usd:.2f} are spent; the rest would not last until the next look"
            )

    @property
    def usd(self) -> float:
        """The most that all calls until now can have cost, those that run included."""
        with self._lock:
            now = self._clock()
            return self._ended_usd + sum((now - since) * usd for since, usd in self._open.values())

    def bill(self) -> dict[str, Any]:
        """Give calls, their seconds, and dollars; None where there is no price."""
        usd = None if self._price is None else self.usd
        with self._lock:
            now = self._clock()
            seconds = self._seconds + sum(now - since for since, _ in self._open.values())
            return {"calls": self._calls, "seconds": seconds, "usd": usd, "max_usd": self.max_usd}

    @contextmanager
    def _running(self, usd_per_second: float) -> Iterator[None]:
        self.check()
        with self._lock:
            number = next(self._numbers)
            self._open[number] = (self._clock(), usd_per_second)
            self._calls += 1
        try:
            yield
        finally:
            with self._lock:
                since, usd = self._open.pop(number)
                spent_s = self._clock() - since
                self._seconds += spent_s
                self._ended_usd += spent_s * usd
