"""When Python looks for rubbish: not while the board is read, of which nothing is."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collection() -> Iterator[None]:
    """Switch the search for rubbish off: looking for it takes a third of the time.

    What was made meanwhile is here to stay, and is not searched later either.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.freeze()
            gc.enable()
