"""Threads that draw samples at the same time. Whoever is interrupted waits for none of them.

A request waits for its server in a call that nothing ends before its time. So the threads are daemons, which
a process leaves behind when it ends; those of `concurrent.futures` would hold it until the last answer.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, wait
from queue import SimpleQueue
from threading import Thread

_Work = tuple[Future[None], Callable[[], None]]


class Pool:
    """Runs what is handed in on so many threads at most."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._threads = 0
        self._futures: list[Future[None]] = []
        self._queue: SimpleQueue[_Work | None] = SimpleQueue()

    def submit(self, run: Callable[[], None]) -> Future[None]:
        """Have something run as soon as a thread is free."""
        future: Future[None] = Future()
        self._futures.append(future)
        self._queue.put((future, run))
        if self._threads < self._workers:
            self._threads += 1
            Thread(target=self._serve, name=f"generate-{self._threads}", daemon=True).start()
        return future

    def close(self, wait_s: float | None = None) -> None:
        """Begin nothing more, and wait for what runs: so many seconds at most, or until it has ended."""
        begun = [future for future in self._futures if not future.cancel()]
        for _ in range(self._threads):
            self._queue.put(None)
        wait(begun, wait_s)

    def _serve(self) -> None:
        while (work := self._queue.get()) is not None:
            future, run = work
            if not future.set_running_or_notify_cancel():
                continue
            try:
                run()
            except Exception as error:  # noqa: BLE001 (raised again where the result is taken)
                future.set_exception(error)
            else:
                future.set_result(None)
