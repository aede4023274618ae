"""Connections that do not wait for ever: a deadline for each request to be whole, and a bound by address."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any, ClassVar

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_S = 30.0
"""Seconds from a connection's first byte, or its opening, to the end of a request's headers and body."""

PER_ADDRESS = 1024
"""Connections that one address may hold open; each of a training loop's workers waits on one."""


def server_config(app: FastAPI, **options: Any) -> uvicorn.Config:
    """Configure the server; `options` are uvicorn's."""
    return uvicorn.Config(app, http=PatientConnection, ws="none", log_level="warning", **options)


_ABSENT = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
"""Of an address that this machine lacks: `localhost` stands for one of IPv6 even where there is no IPv6."""


class AddressError(Exception):
    """The server cannot listen there. The message says why, and what to choose."""


def listen(host: str, port: int) -> list[socket.socket]:
    """Take the port on every address of this machine that the host's name stands for; raise AddressError."""
    listeners = []
    absent: OSError | None = None
    with ExitStack() as opened:
        try:
            places = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            for family, _, _, _, address in dict.fromkeys(places):
                try:
                    listeners.append(opened.enter_context(socket.create_server(address, family=family)))
                except OSError as error:
                    if error.errno not in _ABSENT:
                        raise
                    absent = error
            if absent and not listeners:
                raise absent
        except (OSError, UnicodeError) as error:  # the latter: a name that no host can have
            raise AddressError(_why_not(host, port, error)) from error
        opened.pop_all()
    return listeners


def addresses(listeners: Iterable[socket.socket]) -> list[str]:
    """Give the address of each as clients write it."""
    places = [listener.getsockname()[:2] for listener in listeners]
    return [f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}" for host, port in places]


def _why_not(host: str, port: int, error: OSError | UnicodeError) -> str:
    number = error.errno if isinstance(error, OSError) else None
    if number == errno.EADDRINUSE:
        return f"port {port} is taken on {host}; choose another with --port"
    if number == errno.EACCES:
        return f"port {port} is not open to this user; choose one above 1023 with --port"
    return f"--host must be an address of this machine, got {host}: {error}"


def serve_until_stopped(app: FastAPI, listeners: list[socket.socket]) -> None:
    """Serve until a signal comes."""
    Server(server_config(app)).run(listeners)


class Server(uvicorn.Server):
    """Hangs up on who waits once it is told to stop: a batch may have hours to go.

    Clients see an answer cut off, and not one that is whole; they ask again by the same ids.
    """

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Hang up, then end as uvicorn does."""
        self.config.app.state.is_stopping = True  # type: ignore[union-attr]  # it is FastAPI's
        for connection in list(self.server_state.connections):
            connection.transport.close()
        await super().shutdown(sockets)


class PatientConnection(H11Protocol):
    """A connection on which no request may stay unfinished. An answer may take as long as it takes."""

    request_s: ClassVar[float] = REQUEST_S
    per_address: ClassVar[int] = PER_ADDRESS
    _open: ClassVar[Counter[str]] = Counter()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count the connection, and end it where its address has too many."""
        super().connection_made(transport)
        self._deadline: asyncio.TimerHandle | None = None
        self._address = self.client[0] if self.client else ""
        self._open[self._address] += 1
        if self._open[self._address] > self.per_address:
            transport.close()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._rest()
        self._open[self._address] -= 1
        if not self._open[self._address]:
            del self._open[self._address]
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what came, and watch until the request is whole."""
        super().data_received(data)
        self._watch()

    def _watch(self) -> None:
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete and not cycle.more_body:
            self._rest()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(self.request_s, self.transport.close)

    def _rest(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
