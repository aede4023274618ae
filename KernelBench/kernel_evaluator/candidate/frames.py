"""The wire between the oracle and the processes that run models: small framed messages over a Unix socket.

From the oracle frames carry JSON. Back come only fixed structures and capped text: nothing is
unpickled, and every byte from a candidate is a claim. Owns the encoding; knows nothing of what is said.
"""

from __future__ import annotations

import json
import math
import select
import socket
import struct
import time
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

MAX_FRAME = 4 << 20
MAX_LEAVES = 64
MAX_DIMS = 16

_HEADER = struct.Struct("<IIQ")
_LEAF = struct.Struct(f"<BBBBq{MAX_DIMS}q{MAX_DIMS}s")
_REPLY = struct.Struct("<dqII")

DTYPES = ("float32", "float16", "bfloat16", "float64", "int64", "int32", "int16", "int8", "uint8", "bool")
"""Element types by their code on the wire; 255 stands for any other."""


class Op(IntEnum):
    """What a frame asks or answers."""

    LOAD = 1
    CONSTRUCT = 2
    BUFFER = 3
    INPUTS = 4
    STATE = 5
    CALL = 6
    BATCH = 7
    GO = 8
    DELIVER = 9
    SPARE = 10
    WARM = 11
    TIME = 12
    CENSUS = 13
    PROBE = 14
    DONE = 100
    READY = 101
    FAILED = 102


class ProtocolError(Exception):
    """The other side sent what the protocol does not allow."""


class ChannelClosed(Exception):
    """The other side is gone."""


class Overdue(Exception):
    """No answer came in time."""


@dataclass(frozen=True, kw_only=True)
class Leaf:
    """What the candidate says of one output: a claim that the oracle checks."""

    dtype: str
    shape: tuple[int, ...]
    device: str
    is_plain_tensor: bool
    is_dense: bool
    order: tuple[int, ...] = ()
    """Its dimensions from the outermost in memory to the innermost; row-major where left out."""


@dataclass(frozen=True, kw_only=True)
class Reply:
    """An answer: `number` and `count` mean what the request says they mean."""

    op: Op
    number: float = 0.0
    count: int = 0
    leaves: tuple[Leaf, ...] = ()
    text: str = ""


class Channel:
    """One end of the conversation. Sequence numbers keep answers from being replayed."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._poll = select.poll()  # select refuses descriptors from 1024 on
        self._poll.register(sock, select.POLLIN)
        self._sequence = 0
        self._buffer = bytearray()

    def fileno(self) -> int:
        """The socket's file descriptor."""
        return self._sock.fileno()

    def ask(self, op: Op, *, fds: tuple[int, ...] = (), **facts: Any) -> None:
        """Send a request with JSON facts, and file descriptors where it passes memory."""
        self._expect_silence()
        payload = json.dumps(facts).encode()
        self._sequence += 1
        message = _HEADER.pack(op, len(payload), self._sequence) + payload
        try:
            if fds:
                socket.send_fds(self._sock, [message[:1]], list(fds))
                self._sock.sendall(message[1:])
            else:
                self._sock.sendall(message)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise ChannelClosed("the process is gone") from error

    def _expect_silence(self) -> None:
        """An answer that lies there before it was asked for is a forgery."""
        if not self._buffer and not self._poll.poll(0):
            return
        try:
            spoke = bool(self._buffer) or bool(self._sock.recv(1, socket.MSG_PEEK))
        except ConnectionResetError:
            spoke = False
        if spoke:
            raise ProtocolError("the process answered before it was asked")

    def listen(self) -> tuple[Op, dict[str, Any], list[int]]:
        """Wait for a request, on the model's side; give its operation, facts and file descriptors."""
        first, fds, _, _ = socket.recv_fds(self._sock, 1, 4)
        if not first:
            raise ChannelClosed("the oracle is gone")
        header = first + self._exactly(_HEADER.size - 1)
        op, length, self._sequence = _HEADER.unpack(header)
        return Op(op), json.loads(self._exactly(length)), list(fds)

    def answer(self, reply: Reply) -> None:
        """Answer the request heard last."""
        text = reply.text.encode("utf-8", "replace")[: MAX_FRAME // 2]
        leaves = b"".join(_pack_leaf(leaf) for leaf in reply.leaves[:MAX_LEAVES])
        payload = _REPLY.pack(reply.number, reply.count, len(reply.leaves), len(text)) + leaves + text
        self._sock.sendall(_HEADER.pack(reply.op, len(payload), self._sequence) + payload)

    def receive(self, timeout_s: float, *, spin: bool = False) -> Reply:
        """Wait for the answer to the last request; with `spin` the processor stays awake, for the clock.

        Raises Overdue, ChannelClosed, or ProtocolError where the bytes are not an answer to it.
        """
        deadline = time.monotonic() + timeout_s
        op, length, sequence = _HEADER.unpack(self._take(_HEADER.size, deadline, spin))
        if length > MAX_FRAME:
            raise ProtocolError(f"the answer claims {length} bytes, at most {MAX_FRAME} are allowed")
        if sequence != self._sequence:
            said = bytes(self._buffer[:length])[-2000:].decode("utf-8", "replace")
            raise ProtocolError(
                f"the answer ({op}) has sequence {sequence}, the request had {self._sequence}: {said}"
            )
        if op not in (Op.DONE, Op.READY, Op.FAILED):
            raise ProtocolError(f"{op} is not the code of an answer")
        return _unpack_reply(Op(op), self._take(length, deadline, spin))

    def _take(self, size: int, deadline: float, spin: bool) -> bytes:
        while len(self._buffer) < size:
            self._await_bytes(deadline, spin)
            try:
                chunk = self._sock.recv(1 << 16)
            except ConnectionResetError as error:
                raise ChannelClosed("the process is gone") from error
            if not chunk:
                raise ChannelClosed("the process is gone")
            self._buffer += chunk
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken

    def _await_bytes(self, deadline: float, spin: bool) -> None:
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise Overdue
            if self._poll.poll(0 if spin else min(left, 1.0) * 1e3):
                return

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            chunk = self._sock.recv(size - len(data))
            if not chunk:
                raise ChannelClosed("the oracle is gone")
            data += chunk
        return bytes(data)

    def wait_for_request(self, spin_s: float) -> None:
        """Stay awake for a moment on the model's side, so that a GO is heard without a wake-up delay."""
        deadline = time.monotonic() + spin_s
        while time.monotonic() < deadline:
            if self._poll.poll(0):
                return

    def close(self) -> None:
        """End the conversation."""
        self._sock.close()


def _pack_leaf(leaf: Leaf) -> bytes:
    code = DTYPES.index(leaf.dtype) if leaf.dtype in DTYPES else 255
    shape = list(leaf.shape[:MAX_DIMS]) + [0] * (MAX_DIMS - len(leaf.shape))
    flags = leaf.is_plain_tensor | leaf.is_dense << 1
    order = bytes(leaf.order or range(len(leaf.shape)))[:MAX_DIMS]
    return _LEAF.pack(code, leaf.device == "cuda", flags, 0, len(leaf.shape), *shape, order)


def _unpack_reply(op: Op, payload: bytes) -> Reply:
    if len(payload) < _REPLY.size:
        raise ProtocolError(f"an answer has at least {_REPLY.size} bytes, got {len(payload)}")
    number, count, leaf_count, text_length = _REPLY.unpack_from(payload)
    if not math.isfinite(number) or number < 0:
        raise ProtocolError(f"a number must be finite and not negative, got {number}")
    if leaf_count > MAX_LEAVES or text_length > MAX_FRAME:
        raise ProtocolError(f"an answer has at most {MAX_LEAVES} outputs, got {leaf_count}")
    expected = _REPLY.size + leaf_count * _LEAF.size + text_length
    if len(payload) != expected:
        raise ProtocolError(f"the answer should have {expected} bytes, got {len(payload)}")
    leaves = tuple(_unpack_leaf(payload, _REPLY.size + i * _LEAF.size) for i in range(leaf_count))
    text = payload[expected - text_length :].decode("utf-8", "replace")
    return Reply(op=op, number=number, count=count, leaves=leaves, text=text)


def _unpack_leaf(payload: bytes, offset: int) -> Leaf:
    code, on_gpu, flags, _, dims, *shape, order = _LEAF.unpack_from(payload, offset)
    if not 0 <= dims <= MAX_DIMS or any(size < 0 for size in shape[:dims]):
        raise ProtocolError(f"an output has 0-{MAX_DIMS} dimensions, got {dims}")
    if sorted(order[:dims]) != list(range(dims)):
        raise ProtocolError(f"an output's order names each dimension once, got {list(order[:dims])}")
    return Leaf(
        dtype=DTYPES[code] if code < len(DTYPES) else "other",
        shape=tuple(shape[:dims]),
        device="cuda" if on_gpu else "cpu",
        is_plain_tensor=bool(flags & 1),
        is_dense=bool(flags & 2),
        order=tuple(order[:dims]),
    )
