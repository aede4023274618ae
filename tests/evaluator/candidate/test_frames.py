"""The wire between oracle and candidate: what is said arrives, and whatever else comes is refused."""

import fcntl
import os
import resource
import socket
import struct
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_evaluator.candidate.frames import (
    MAX_FRAME,
    MAX_LEAVES,
    Channel,
    ChannelClosed,
    Leaf,
    Op,
    Overdue,
    ProtocolError,
    Reply,
)

HEADER, REPLY = struct.Struct("<IIQ"), struct.Struct("<dqII")
LEAF = Leaf(dtype="float16", shape=(2, 3), device="cpu", is_plain_tensor=True, is_dense=False, order=(1, 0))


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    yield Channel(ours), theirs
    ours.close()
    theirs.close()


def payload(number=1.0, count=2, leaves=0, text=b"", body=b""):
    return REPLY.pack(number, count, leaves, len(text)) + body + text


def frame(content, *, op=Op.DONE, sequence=1, length=None):
    return HEADER.pack(op, len(content) if length is None else length, sequence) + content


def answered(pair, raw):
    """What the oracle makes of raw bytes that come after its first request."""
    channel, theirs = pair
    channel.ask(Op.CALL, at=0)
    theirs.sendall(raw)
    return channel.receive(5)


def test_a_request_and_its_answer_arrive_with_all_they_carry(pair):
    channel, theirs = pair
    other = Channel(theirs)
    with Path(os.devnull).open("rb") as stream:
        channel.ask(Op.BUFFER, fds=(stream.fileno(),), name="inputs", nbytes=5)
    op, facts, fds = other.listen()
    assert (op, facts, len(fds)) == (Op.BUFFER, {"name": "inputs", "nbytes": 5}, 1)
    os.close(fds[0])
    reply = Reply(op=Op.DONE, number=0.25, count=-3, leaves=(LEAF, LEAF), text="(t,t) é")
    other.answer(reply)
    assert channel.receive(5) == reply


def test_answers_may_come_in_pieces(pair):
    channel, theirs = pair
    channel.ask(Op.CALL)
    raw = frame(payload(text=b"slowly"))
    sender = threading.Thread(
        target=lambda: [(time.sleep(0.002), theirs.send(raw[i : i + 1])) for i in range(len(raw))]
    )
    sender.start()
    assert channel.receive(20, spin=True).text == "slowly"
    sender.join()


@pytest.mark.parametrize("order", [(0, 0), (0, 2), (1, 255)])
def test_an_order_that_names_a_dimension_twice_or_another_is_refused(pair, order):
    channel, theirs = pair
    channel.ask(Op.DELIVER)
    other = Channel(theirs)
    other.listen()
    other.answer(Reply(op=Op.DONE, leaves=(replace(LEAF, order=order),)))
    with pytest.raises(ProtocolError, match="each dimension once"):
        channel.receive(5)


@pytest.mark.parametrize("sequence", [0, 2, 2**64 - 1])
def test_an_answer_to_another_question_is_refused(pair, sequence):
    with pytest.raises(ProtocolError, match="sequence"):
        answered(pair, frame(payload(), sequence=sequence))


@pytest.mark.parametrize("op", [0, Op.LOAD, Op.GO, 99, 2**32 - 1])
def test_an_answer_with_the_code_of_something_else_is_refused(pair, op):
    with pytest.raises(ProtocolError, match="code of an answer"):
        answered(pair, frame(payload(), op=op))


def test_a_frame_that_claims_to_be_endless_is_refused_before_it_is_read(pair):
    with pytest.raises(ProtocolError, match="at most"):
        answered(pair, frame(b"", length=MAX_FRAME + 1))


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf"), -1e-9])
def test_numbers_that_are_no_times_are_refused(pair, number):
    with pytest.raises(ProtocolError, match="finite"):
        answered(pair, frame(payload(number=number)))


def test_more_outputs_than_can_be_are_refused(pair):
    with pytest.raises(ProtocolError, match="outputs"):
        answered(pair, frame(payload(leaves=MAX_LEAVES + 1)))


def test_more_outputs_than_fit_are_an_error_and_no_truncation(pair):
    channel, theirs = pair
    channel.ask(Op.CALL)
    other = Channel(theirs)
    other.listen()
    other.answer(Reply(op=Op.DONE, leaves=(LEAF,) * (MAX_LEAVES + 1)))
    with pytest.raises(ProtocolError):
        channel.receive(5)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"short",
        payload() + b"more",
        payload(leaves=1),
        REPLY.pack(0.0, 0, 0, 9),
        REPLY.pack(0.0, 0, 0, 2**32 - 1),
    ],
)
def test_lengths_that_do_not_add_up_are_refused(pair, content):
    with pytest.raises(ProtocolError):
        answered(pair, frame(content))


@pytest.mark.parametrize("dims", [-1, 17, 2**40])
def test_outputs_of_impossible_shapes_are_refused(pair, dims):
    leaf = struct.pack("<BBBBq16q16s", 0, 0, 3, 0, dims, *[1] * 16, bytes(16))
    with pytest.raises(ProtocolError, match="dimensions"):
        answered(pair, frame(payload(leaves=1, body=leaf)))


def test_a_type_that_is_not_known_is_called_other(pair):
    leaf = struct.pack("<BBBBq16q16s", 200, 1, 3, 0, 1, *[1] * 16, bytes(16))
    (said,) = answered(pair, frame(payload(leaves=1, body=leaf))).leaves
    assert (said.dtype, said.device, said.shape) == ("other", "cuda", (1,))


def test_what_is_said_before_it_was_asked_for_is_a_forgery(pair):
    channel, theirs = pair
    theirs.sendall(frame(payload(), sequence=1))
    with pytest.raises(ProtocolError, match="before it was asked"):
        channel.ask(Op.CALL)


def test_a_second_answer_is_a_forgery_at_the_next_question(pair):
    channel, _ = pair
    answered(pair, frame(payload()) + frame(payload(), sequence=2))
    with pytest.raises(ProtocolError, match="before it was asked"):
        channel.ask(Op.CALL)


def test_silence_is_overdue_and_half_a_frame_is_silence(pair):
    channel, theirs = pair
    channel.ask(Op.CALL)
    theirs.sendall(frame(payload())[:-1])
    with pytest.raises(Overdue):
        channel.receive(0.2)


def test_the_end_of_the_other_side_is_told(pair):
    channel, theirs = pair
    channel.ask(Op.CALL)
    theirs.close()
    with pytest.raises(ChannelClosed):
        channel.receive(5)
    with pytest.raises(ChannelClosed):
        channel.ask(Op.CALL)


@settings(max_examples=300)
@given(st.binary(max_size=400), st.booleans())
def test_no_bytes_whatever_do_more_than_be_refused(noise, is_framed):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        channel = Channel(ours)
        channel.ask(Op.CALL)
        theirs.sendall(frame(noise) if is_framed else noise)
        theirs.shutdown(socket.SHUT_WR)
        try:
            reply = channel.receive(5)
        except (ProtocolError, ChannelClosed):
            return
        assert reply.number >= 0 and len(reply.leaves) <= MAX_LEAVES


@given(
    st.floats(0, allow_nan=False, allow_infinity=False),
    st.integers(-(2**63), 2**63 - 1),
    st.text(max_size=200),
    st.lists(
        st.tuples(st.sampled_from(["float32", "bool"]), st.lists(st.integers(0, 2**62), max_size=16)),
        max_size=5,
    ),
)
def test_every_answer_that_can_be_given_arrives(number, count, text, leaves):
    said = tuple(
        Leaf(
            dtype=dtype,
            shape=tuple(shape),
            device="cpu",
            is_plain_tensor=True,
            is_dense=True,
            order=tuple(reversed(range(len(shape)))),
        )
        for dtype, shape in leaves
    )
    text = text.encode("utf-8", "replace").decode()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        channel, other = Channel(ours), Channel(theirs)
        channel.ask(Op.CALL)
        other.listen()
        other.answer(Reply(op=Op.DONE, number=number, count=count, leaves=said, text=text))
        assert channel.receive(5) == Reply(op=Op.DONE, number=number, count=count, leaves=said, text=text)


def test_a_channel_works_on_a_descriptor_beyond_the_first_thousand():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    try:
        ours, theirs = socket.socketpair()
        far = [socket.socket(fileno=fcntl.fcntl(end.detach(), fcntl.F_DUPFD, 2000)) for end in (ours, theirs)]
        oracle, runner = Channel(far[0]), Channel(far[1])
        oracle.ask(Op.WARM)
        runner.wait_for_request(1.0)
        assert runner.listen()[0] is Op.WARM
        runner.answer(Reply(op=Op.DONE))
        assert oracle.receive(5.0).op is Op.DONE
    finally:
        for end in far:
            end.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
