"""Ports for servers that are told theirs: one that the kernel chose may be another's too once it is let go."""

from __future__ import annotations

import itertools
import os
import socket
from pathlib import Path

FIRST, OF_ONE_PROCESS = 10_000, 16
_turn = itertools.count()


def free_port() -> int:
    """Give a free port below those that the kernel hands out, from a share that is this process's own."""
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    shares = max(1, (lowest - FIRST) // OF_ONE_PROCESS)
    share = FIRST + os.getpid() % shares * OF_ONE_PROCESS
    for _ in range(OF_ONE_PROCESS):
        port = share + next(_turn) % OF_ONE_PROCESS
        try:
            with socket.create_server(("127.0.0.1", port)):
                return port
        except OSError:  # somebody listens there
            continue
    raise AssertionError(f"no port is free from {share} on")
