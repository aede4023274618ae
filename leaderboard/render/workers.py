"""Runs the same work on many things in forked processes, and gives what comes of them in order.

Knows nothing of the site.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

from kernel_evaluator.walls.sandbox import die_with_parent

Task = TypeVar("Task")
Made = TypeVar("Made")


def spread(
    work: Callable[[Task], Made], tasks: Sequence[Task], *, jobs: int, chunk: int = 1
) -> Iterator[Made]:
    """Yield what `work` makes of each task, in order: from forked processes where that works, else here.

    Workers inherit what the caller holds; tasks, and what is made of them, are sent `chunk` at a time.
    Raises BrokenProcessPool where one is killed. None are forked where Ray is loaded: on Python 3.13 they
    would die in its code.
    """
    jobs = min(jobs, len(tasks))
    if jobs < 2 or sys.platform != "linux" or "ray" in sys.modules:
        yield from map(work, tasks)
        return
    forked = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(jobs, mp_context=forked, initializer=_begin, initargs=(os.getpid(),)) as pool:
        yield from pool.map(work, tasks, chunksize=chunk)


def _begin(parent: int) -> None:
    """Get a worker ready: it never looks for rubbish, and ends with who forked it, however that ends."""
    gc.disable()
    die_with_parent()
    if os.getppid() != parent:
        os._exit(1)
