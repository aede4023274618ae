"""The trusted side's line to the server that forks builds: starts it, hands over requests, reads reports."""

from __future__ import annotations

import json
import os
import select
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, Any

from kernel_evaluator.records.places import PACKAGE

LEAN = {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
"""What keeps a process of the build stage small: no GPU, one thread, no files written beside sources."""

_LENGTH = struct.Struct("<Q")
_REPORT_BYTES = 4096
_ENDS_S = 5.0


@dataclass
class Running:
    """One build that runs. `keeper` is 0 until it is known; `end` is None until the build is over."""

    _report: int
    keeper: int = 0
    end: dict[str, Any] | None = None
    _text: bytes = field(default=b"", repr=False)

    def wait(self, timeout_s: float) -> bool:
        """Wait for news; True once the build is over, also where its keeper died without a word."""
        if self.end is None and select.select([self._report], [], [], timeout_s)[0]:
            part = os.read(self._report, _REPORT_BYTES)
            self._text += part
            for line in self._text.splitlines() if self._text.endswith(b"\n") else []:
                self._note(json.loads(line))
            if not part and self.end is None:
                self.end = {}
        return self.end is not None

    def close(self) -> None:
        """Let go of the report."""
        os.close(self._report)

    def _note(self, facts: dict[str, Any]) -> None:
        self.keeper = facts.get("keeper", self.keeper)
        if "exit_code" in facts:
            self.end = facts


class BuildServer:
    """The server process, started with the first build and again should it have died."""

    def __init__(self, cores: Sequence[int]) -> None:
        """Keep all builds to these processor cores: whoever uses up a quota is stopped with all beside it."""
        self._cores = cores
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._requests: socket.socket | None = None

    def start(self, request: dict[str, Any], log: IO[bytes]) -> Running:
        """Begin a build that writes to `log`; its end comes by the object given."""
        report, theirs = os.pipe()
        try:
            with self._lock:
                try:
                    self._send(request, log.fileno(), theirs)
                except (BrokenPipeError, ConnectionResetError):
                    self._end()
                    self._send(request, log.fileno(), theirs)
        finally:
            os.close(theirs)
        return Running(report)

    def close(self) -> None:
        """End the server; builds that run end with it."""
        with self._lock:
            self._end()

    def _send(self, request: dict[str, Any], log: int, report: int) -> None:
        if self._requests is None:
            self._begin()
        assert self._requests is not None  # noqa: S101 (set by _begin)
        body = json.dumps(request).encode()
        socket.send_fds(self._requests, [_LENGTH.pack(len(body))], [log, report])
        self._requests.sendall(body)

    def _begin(self) -> None:
        paths = [str(PACKAGE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
        self._requests, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "kernel_evaluator.building.child", *map(str, self._cores)],
                stdin=theirs.fileno(),
                start_new_session=True,
                env={**os.environ, **LEAN, "PYTHONPATH": os.pathsep.join(paths)},
            )

    def _end(self) -> None:
        if self._requests is not None and self._process is not None:
            self._requests.close()
            with suppress(subprocess.TimeoutExpired):  # it ends all builds first
                self._process.wait(_ENDS_S)
            self._process.kill()
            self._process.wait()
        self._requests = self._process = None
