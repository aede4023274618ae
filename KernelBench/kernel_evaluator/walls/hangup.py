"""Ends a process whose asker goes away while it loads what it needs, which takes seconds."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def ended_by_hangup(descriptor: int, tidy: Callable[[], object] = int) -> Iterator[None]:
    """While the block runs, tidy and end this process where the other end of a socket or pipe is closed.

    No thread is left afterwards, so that the process may fork.
    """
    stop, stopping = os.pipe()
    thread = threading.Thread(target=_watch, args=(descriptor, stop, tidy), daemon=True)
    thread.start()
    try:
        yield
    finally:
        os.close(stopping)
        thread.join()
        os.close(stop)


def _watch(descriptor: int, stop: int, tidy: Callable[[], object]) -> None:
    poll = select.poll()
    poll.register(descriptor, select.POLLRDHUP)
    poll.register(stop, 0)  # hanging up is told in any case
    if stop not in {each for each, _ in poll.poll()}:
        tidy()
        os._exit(1)
