"""A Ray cluster of several nodes on this host, whose nodes can be killed like machines: what its tests share."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from pathlib import Path

QUICK = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "10000",
    "RAY_health_check_failure_threshold": "3",
    "RAY_DISABLE_IMPORT_WARNING": "1",
    "OMP_NUM_THREADS": "1",
}
STORE_BYTES = 90 * 2**20
_PR_SET_CHILD_SUBREAPER = 36


class Machines:
    """The head, which judges nothing, and nodes that come and go."""

    def __init__(self, nodes: int, builders: int = 0) -> None:
        import ray
        from ray.cluster_utils import Cluster

        head = {"num_cpus": 0, "object_store_memory": STORE_BYTES, "include_dashboard": False}
        self.cluster = Cluster(initialize_head=True, head_node_args=head)
        self.nodes = [self.add() for _ in range(nodes)]
        for _ in range(builders):
            self.add(resources={"kbl_build": 1})
        ray.init(address=self.cluster.address, log_to_driver=False, logging_level="ERROR")

    def add(self, **options):
        return self.cluster.add_node(num_cpus=1, object_store_memory=STORE_BYTES, **options)

    def kill(self, node, *, with_workers: bool) -> None:
        """Kill a node's agent with SIGKILL, with all that it started or leaving that to notice."""
        processes = [each.process.pid for kind in node.all_processes.values() for each in kind]
        family = [pid for each in processes for pid in descendants(each)] if with_workers else []
        for pid in [*processes, *family]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.nodes.remove(node)

    def close(self) -> None:
        import ray

        ray.shutdown()
        self.cluster.shutdown()


@contextlib.contextmanager
def machines(nodes: int, builders: int = 0):
    """Give a cluster; fail where anything of it is left at the end."""
    kept = {name: os.environ.get(name) for name in QUICK}
    with nothing_left():
        os.environ.update(QUICK)
        there = Machines(nodes, builders)
        try:
            yield there
        finally:
            there.close()
            for name, value in kept.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})


@contextlib.contextmanager
def nothing_left():
    """Fail where a process or anything of Ray's in shared memory is left half a minute after the end.

    What loses its parent meanwhile becomes a child of this process, or it would be seen no more.
    """
    before = left_behind()
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
        until = time.monotonic() + 30
        while (left := left_behind() - before) and time.monotonic() < until:
            time.sleep(0.2)
        assert not left, left
    finally:
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def left_behind() -> set[str]:
    """Name the processes of Ray and of judging, and what Ray has in shared memory: browsers of other tests use it too."""
    found = {str(path) for path in Path("/dev/shm").glob("plasma*")}
    for pid in descendants(os.getpid()):
        with contextlib.suppress(OSError):
            found.add(Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()[:200])
    return {each for each in found if each}


def descendants(pid: int) -> list[int]:
    from kernel_evaluator.walls import sandbox

    return [each for each in sandbox.descendants(pid) if each != pid]
