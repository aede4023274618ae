"""A control plane that speaks Modal's protocol, so that the real client runs our engine without an account.

What a remote function does is a Python callable here; what can befall a container is an exception it raises:
`Lost` (the platform lost it), `Crashed` (it died), `TimeoutError`. `Raw` answers with bytes of any format.
The protocol is private: this speaks that of modal 1.6.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

os.environ.update(MODAL_TOKEN_ID="ak-none", MODAL_TOKEN_SECRET="as-none")

import cbor2
import grpclib.server
import modal  # noqa: F401  # before modal_proto.api_grpc: the two import each other
from google.protobuf.empty_pb2 import Empty
from modal._utils.grpc_testing import patch_mock_servicer
from modal_proto import api_grpc
from modal_proto import api_pb2 as pb

BUILDER_VERSION = "2026.10"
TOKEN = "eyJhbGciOiJub25lIn0.eyJleHAiOjQxMDI0NDQ4MDB9.x"
Result = pb.GenericResult


class Lost(Exception):
    """The platform lost the container: it says so itself."""


class Crashed(Exception):
    """The container's process died. `data` is what it left as its pickled exception."""

    def __init__(self, words: str = "container exited", data: bytes = b"") -> None:
        super().__init__(words)
        self.data = data


@dataclass(frozen=True)
class Raw:
    """An answer in whatever format the container likes."""

    data: bytes
    data_format: int = pb.DATA_FORMAT_PICKLE


@dataclass
class Call:
    """One call of a function, with the outputs that nobody has fetched yet."""

    function_id: str
    outputs: list[pb.FunctionGetOutputsItem] = field(default_factory=list)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)


class Connection:
    """The part that every app needs: hello, token, environment, app, image, mount. Keeps the images' definitions."""

    def __init__(self) -> None:
        self.images: list[pb.Image] = []
        self.mounted: list[str] = []
        self.apps: list[str] = []
        self.refusal = ""
        """Why no app is made; one is where it is empty."""
        self._numbers = itertools.count(1)

    def new_id(self, prefix: str) -> str:
        return f"{prefix}-{next(self._numbers):06d}"

    async def ClientHello(self, stream):
        await _reply(stream, pb.ClientHelloResponse(image_builder_version=BUILDER_VERSION))

    async def AuthTokenGet(self, stream):
        await _reply(stream, pb.AuthTokenGetResponse(token=TOKEN))

    async def EnvironmentGetOrCreate(self, stream):
        settings = pb.EnvironmentSettings(image_builder_version=BUILDER_VERSION)
        about = pb.EnvironmentMetadata(name="main", settings=settings)
        await _reply(stream, pb.EnvironmentGetOrCreateResponse(environment_id="en-1", metadata=about))

    async def AppCreate(self, stream):
        request = await stream.recv_message()
        if self.refusal:
            raise grpclib.GRPCError(grpclib.Status.UNAUTHENTICATED, self.refusal)
        self.apps.append(request.description)
        await stream.send_message(pb.AppCreateResponse(app_id=self.new_id("ap")))

    async def AppGetLayout(self, stream):
        await _reply(stream, pb.AppGetLayoutResponse(app_layout=pb.AppLayout()))

    async def AppPublish(self, stream):
        await _reply(stream, pb.AppPublishResponse())

    async def AppHeartbeat(self, stream):
        await _reply(stream, Empty())

    async def AppGetLogs(self, stream):
        await _reply(stream, pb.TaskLogsBatch(app_done=True))

    async def ImageGetOrCreate(self, stream):
        request = await stream.recv_message()
        self.images.append(request.image)
        answer = pb.ImageGetOrCreateResponse(
            image_id=self.new_id("im"),
            result=Result(status=Result.GENERIC_STATUS_SUCCESS),
            metadata=pb.ImageMetadata(image_builder_version=BUILDER_VERSION),
        )
        await stream.send_message(answer)

    async def ImageJoinStreaming(self, stream):
        done = Result(status=Result.GENERIC_STATUS_SUCCESS)
        await _reply(stream, pb.ImageJoinStreamingResponse(result=done))

    async def MountBatchedCheckExistence(self, stream):
        await _reply(stream, pb.MountBatchedCheckExistenceResponse())

    async def MountPutFile(self, stream):
        await _reply(stream, pb.MountPutFileResponse(exists=True))

    async def MountGetOrCreate(self, stream):
        request = await stream.recv_message()
        self.mounted += [file.filename for file in request.files]
        about = pb.MountHandleMetadata(content_checksum_sha256_hex="0" * 64)
        answer = pb.MountGetOrCreateResponse(mount_id=self.new_id("mo"), handle_metadata=about)
        await stream.send_message(answer)


@patch_mock_servicer
class FakeModal(Connection, api_grpc.ModalClientBase):
    """Runs `functions[name]` for the remote function of that name, and keeps what was asked for."""

    def __init__(self, functions: dict[str, Callable[[str], object]]) -> None:
        super().__init__()
        self.functions = functions
        self.definitions: dict[str, pb.Function] = {}
        self.attempts: Counter[str] = Counter()
        self._by_id: dict[str, pb.Function] = {}
        self._calls: dict[str, Call] = {}
        self._running: list[tuple[Call, int, str, asyncio.Task[None]]] = []

    async def FunctionPrecreate(self, stream):
        request = await stream.recv_message()
        about = pb.FunctionHandleMetadata(
            function_name=request.function_name,
            function_type=request.function_type,
            definition_id="de-1",
            supported_input_formats=[pb.DATA_FORMAT_PICKLE, pb.DATA_FORMAT_CBOR],
        )
        answer = pb.FunctionPrecreateResponse(function_id=self.new_id("fu"), handle_metadata=about)
        await stream.send_message(answer)

    async def FunctionCreate(self, stream):
        request = await stream.recv_message()
        definition, function_id = request.function, request.existing_function_id or self.new_id("fu")
        self._by_id[function_id] = self.definitions[definition.function_name] = definition
        about = pb.FunctionHandleMetadata(
            function_name=definition.function_name,
            function_type=definition.function_type,
            definition_id="de-1",
            supported_input_formats=definition.supported_input_formats,
            supported_output_formats=definition.supported_output_formats,
            max_object_size_bytes=2 * 1024 * 1024,
        )
        facts = pb.FunctionData()
        facts.ranked_functions.append(pb.FunctionData.RankedFunction(rank=0, function=definition))
        answer = pb.FunctionCreateResponse(
            function_id=function_id, function=definition, function_data=facts, handle_metadata=about
        )
        await stream.send_message(answer)

    async def FunctionMap(self, stream):
        request = await stream.recv_message()
        call_id = self.new_id("fc")
        self._calls[call_id] = Call(request.function_id)
        answer = pb.FunctionMapResponse(
            function_call_id=call_id,
            pipelined_inputs=[
                self._start(call_id, item.idx, item.input) for item in request.pipelined_inputs
            ],
            function_call_jwt=call_id,
            retry_policy=self._by_id[request.function_id].retry_policy,
            sync_client_retries_enabled=True,
            max_inputs_outstanding=1000,
        )
        await stream.send_message(answer)

    async def FunctionRetryInputs(self, stream):
        request = await stream.recv_message()
        started = [self._start(request.function_call_jwt, 0, item.input) for item in request.inputs]
        answer = pb.FunctionRetryInputsResponse(input_jwts=[item.input_jwt for item in started])
        await stream.send_message(answer)

    async def AppClientDisconnect(self, stream):
        """An app that ends takes its calls along."""
        for call, index, input_id, task in self._running:
            if task.cancel():
                ended = Result(status=Result.GENERIC_STATUS_TERMINATED, exception="the app was stopped")
                await self._put(call, index, input_id, ended, 0)
        self._running.clear()
        await _reply(stream, Empty())

    async def FunctionGetOutputs(self, stream):
        request = await stream.recv_message()
        call = self._calls[request.function_call_id]
        async with call.changed:
            with suppress(asyncio.TimeoutError):
                some = call.changed.wait_for(lambda: bool(call.outputs))
                await asyncio.wait_for(some, max(request.timeout, 0.01))
            fresh, call.outputs = call.outputs, []
        await stream.send_message(pb.FunctionGetOutputsResponse(outputs=fresh, last_entry_id="1-0"))

    def _start(self, call_id: str, index: int, given: pb.FunctionInput) -> pb.FunctionPutInputsResponseItem:
        input_id = self.new_id("in")
        call = self._calls[call_id]
        task = asyncio.get_running_loop().create_task(self._finish(call, index, input_id, given))
        self._running.append((call, index, input_id, task))
        return pb.FunctionPutInputsResponseItem(idx=index, input_id=input_id, input_jwt=input_id)

    async def _finish(self, call: Call, index: int, input_id: str, given: pb.FunctionInput) -> None:
        result, data_format = await self._run(self._by_id[call.function_id], given)
        await self._put(call, index, input_id, result, data_format)

    async def _put(self, call: Call, index: int, input_id: str, result: Result, data_format: int) -> None:
        item = pb.FunctionGetOutputsItem(result=result, idx=index, input_id=input_id, data_format=data_format)
        async with call.changed:
            call.outputs.append(item)
            call.changed.notify_all()

    async def _run(self, definition: pb.Function, given: pb.FunctionInput) -> tuple[Result, int]:
        (request,), _ = _loads(given)
        name = definition.function_name
        self.attempts[name] += 1
        try:
            value = await asyncio.to_thread(self.functions[name], request)
        except Lost as error:
            return Result(status=Result.GENERIC_STATUS_INTERNAL_FAILURE, exception=str(error)), 0
        except TimeoutError as error:
            return Result(status=Result.GENERIC_STATUS_TIMEOUT, exception=str(error)), 0
        except Crashed as error:
            failed = Result(
                status=Result.GENERIC_STATUS_FAILURE, exception=str(error), data=error.data or None
            )
            return failed, pb.DATA_FORMAT_PICKLE
        raw = value if isinstance(value, Raw) else Raw(cbor2.dumps(value), pb.DATA_FORMAT_CBOR)
        return Result(status=Result.GENERIC_STATUS_SUCCESS, data=raw.data), raw.data_format


@contextmanager
def serve(fake: FakeModal) -> Iterator[str]:
    """Serve on a free loopback port in a thread of its own; yields the URL for MODAL_SERVER_URL."""
    ready = threading.Event()
    state: dict[str, object] = {}

    async def run() -> None:
        server = grpclib.server.Server([fake])
        await server.start("127.0.0.1", 0)
        state["port"] = server._server.sockets[0].getsockname()[1]
        state["loop"], state["stop"] = asyncio.get_running_loop(), asyncio.Event()
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(64))
        ready.set()
        await state["stop"].wait()
        server.close()
        await server.wait_closed()

    thread = threading.Thread(target=asyncio.run, args=(run(),), daemon=True)
    thread.start()
    if not ready.wait(10):
        raise RuntimeError("the control plane did not start")
    try:
        yield f"http://127.0.0.1:{state['port']}"
    finally:
        state["loop"].call_soon_threadsafe(state["stop"].set)
        thread.join(5)


async def _reply(stream, answer) -> None:
    await stream.recv_message()
    await stream.send_message(answer)


def _loads(given: pb.FunctionInput):
    if given.data_format == pb.DATA_FORMAT_CBOR:
        return cbor2.loads(given.args)
    import pickle

    return pickle.loads(given.args)
