"""The process that runs a model: a candidate, or the reference in a process of the same kind.

It loads a source, builds the model, and serves the oracle's requests. In a candidate's process everything
here is under the candidate's control: nothing it answers is believed without a check on the other side.
"""

from __future__ import annotations

import ast
import gc
import importlib.util
import itertools
import os
import sys
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from kernel_evaluator.candidate import memory
from kernel_evaluator.candidate.clocks import batch_clock, time_calls, time_launches
from kernel_evaluator.candidate.exact import run_exactly, without_tf32
from kernel_evaluator.candidate.frames import Channel, ChannelClosed, Op, Reply
from kernel_evaluator.candidate.held_memory import HeldMemory
from kernel_evaluator.candidate.outputs import (
    KERNEL,
    claim,
    describe_error,
    flatten,
    memory_order,
    share_memory,
)
from kernel_evaluator.candidate.poison import Poison
from kernel_evaluator.candidate.state import describe_state, match_state
from kernel_evaluator.labels.census import profile
from kernel_evaluator.problems import variants
from kernel_evaluator.problems.inputs import PRECISIONS
from kernel_evaluator.problems.seeding import seed_all

SPIN_S = 0.02
STAYS_AWAKE_S = 0.001
PROBED_LAUNCHES = 16
CLEARLY = 1.1


class Runner:
    """One model and its buffers. Each public method answers one operation of `frames.Op`."""

    def __init__(
        self,
        channel: Channel,
        device: str,
        *,
        extensions: Callable[[], object] | None = None,
        is_candidate: bool = True,
    ) -> None:
        self.channel = channel
        self.device = device
        self.is_candidate = is_candidate
        self.module: ModuleType | None = None
        self.model: torch.nn.Module | None = None
        self.dtype = torch.float32
        self.buffers: dict[str, memory.SharedBuffer] = {}
        self.sets: list[list[Any]] = []
        self.outputs: list[Any] = []
        self._held = HeldMemory(device)
        self._extensions = extensions
        self._names = itertools.count()

    def load(self, source: str, class_name: str) -> Reply:
        """Execute a module's source, as a file so that Triton can read it, and find its class."""
        self._forget()
        if self._extensions is not None:
            self._extensions()
            self._extensions = None
        # Bytecode is matched by second and size: two problems of one length could be taken for each other.
        sys.dont_write_bytecode = True
        name = f"{KERNEL}{next(self._names)}"
        path = Path.cwd() / f"{name}.py"
        path.write_text(source, "utf-8")
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise ImportError(f"cannot load {path}")
        self.module = importlib.util.module_from_spec(spec)
        sys.modules[name] = self.module
        spec.loader.exec_module(self.module)
        self.class_name = class_name
        if not hasattr(self.module, class_name):
            raise AttributeError(f"the source defines no class {class_name}")
        return Reply(op=Op.DONE)

    def construct(self, init: str, seed: int, place: str, precision: str, variant: str) -> Reply:
        """Build the model under a seed, drawing its weights on the device or on the CPU."""
        self.model = None
        self.outputs = []
        self._held.give_back()  # so that weights do not lie in what a call has left
        builder = getattr(self.module, self.class_name)
        with (
            torch.no_grad(),
            torch.device(self.device if place == "device" else "cpu"),
            variants.init(variant),
        ):
            arguments = init_arguments(init)
            seed_all(seed)
            model = builder(*arguments)
        self.dtype = PRECISIONS[precision]
        self.model = model.to(device=self.device, dtype=self.dtype)
        return Reply(op=Op.DONE)

    def buffer(self, name: str, nbytes: int, fallback: bool, fd: int) -> Reply:
        """Map a buffer of the oracle's."""
        if name in self.buffers:
            if name == "inputs":
                self.sets = []
            self.buffers.pop(name).close()
        self.buffers[name] = memory.attach(fd, nbytes, self.device, fallback=fallback)
        return Reply(op=Op.DONE)

    def inputs(self, sets: list[list[dict[str, Any]]]) -> Reply:
        """Lay the input tensors over the shared buffer; scalars come as they are."""
        arena = self.buffers["inputs"]
        self.sets = [[_input(arena, leaf) for leaf in leaves] for leaves in sets]
        return Reply(op=Op.DONE)

    def state(self, action: str, table: list[list[Any]]) -> Reply:
        """Describe, export, or take over parameters and buffers: `table` holds name, dtype, shape, offset."""
        state = self._model().state_dict()
        if action == "describe":
            return Reply(op=Op.DONE, text=describe_state(state))
        views = {name: (dtype, tuple(shape), offset) for name, dtype, shape, offset in table}
        matched = match_state(state, {name: (dtype, shape) for name, (dtype, shape, _) in views.items()})
        if matched is None:
            return Reply(op=Op.DONE, text="unlike")
        state = matched
        if not views:
            return Reply(op=Op.DONE, text="equal")
        shared = self.buffers["state"]
        shared.refresh()
        shared_state = {
            name: shared.view(offset, getattr(torch, dtype), shape)
            for name, (dtype, shape, offset) in views.items()
        }
        if action == "export":
            for name, tensor in state.items():
                shared_state[name].copy_(tensor)
            self._synchronize()
            shared.publish()
            return Reply(op=Op.DONE, text="exported")
        if all(torch.equal(tensor, shared_state[name]) for name, tensor in state.items()):
            return Reply(op=Op.DONE, text="equal")
        with torch.no_grad():
            for name, tensor in state.items():
                tensor.copy_(shared_state[name])
        self._synchronize()
        return Reply(op=Op.DONE, text="loaded")

    def call(self, at: int, seed: int, poison: int, strict: bool, exact: bool = False) -> Reply:
        """Run one forward call; describe its outputs, and count those that lie in the memory of inputs.

        `poison` is how many bytes of free memory to spoil. `strict` leaves TF32 out; `exact` runs in float64
        and rounds at the end.
        """
        self.outputs = []
        self.buffers["inputs"].refresh()
        seed_all(seed)
        try:
            with Poison(self.device, poison), without_tf32() if strict else nullcontext():
                output = self._exactly(at) if exact else self._forward(at)
                self._synchronize()
        finally:
            if exact:
                self._held.pass_over()
        if not exact:
            self._held.note()
        self.outputs = [output]
        leaves, structure = flatten(output)
        self.buffers["inputs"].publish()
        claims = tuple(claim(x) for x in leaves)
        in_inputs = sum(share_memory(x, self.buffers["inputs"].tensor) for x in leaves)
        return Reply(
            op=Op.DONE,
            leaves=claims,
            text=structure,
            number=float(self._held.most_bytes),
            count=in_inputs,
        )

    def batch(self, core: int | None, room: int | None) -> Reply:
        """Run calls back to back after GO, keeping every output; answer with our own clock's milliseconds.

        GO says which inputs and from which seed, and we are stopped while they are written: nothing can be
        computed ahead.
        Both sides launch from a core that was fast just now, so that launch-bound models compare fairly.
        Where `room` is a number, memory is taken anew before, so many bytes more than was ever held.
        """
        self.outputs = []
        own = os.sched_getaffinity(0)
        if core is not None:
            os.sched_setaffinity(0, {core})
        self._synchronize()
        if room is not None:
            self._held.take_anew(room)
        gc.collect(0)
        gc.disable()
        self.channel.answer(Reply(op=Op.READY))
        self.channel.wait_for_request(SPIN_S)
        op, facts, _ = self.channel.listen()
        if op is not Op.GO:
            raise ValueError(f"expected GO, got {op.name}")
        self.buffers["inputs"].refresh()
        seed_all(facts["seed"])
        self._synchronize()
        order = facts["order"]
        model, sets = self._model(), self.sets
        with torch.no_grad():
            outputs, claimed_ms = batch_clock(self.device, lambda: [model(*sets[at]) for at in order])
        self._held.note()
        reply = Reply(op=Op.DONE, number=claimed_ms, count=len(outputs))
        self.outputs = outputs
        if core is not None:
            os.sched_setaffinity(0, own)
        gc.enable()
        return reply

    def deliver(self, indices: list[int], places: list[list[int]]) -> Reply:
        """Copy kept outputs into the shared buffer, each as it lies in memory: reordering takes longer."""
        arena = self.buffers["outputs"]
        delivered = []
        for index, offsets in zip(indices, places, strict=True):
            leaves, _ = flatten(self.outputs[index])
            for leaf, offset in zip(leaves, offsets, strict=True):
                lying = leaf.permute(memory_order(leaf))
                arena.view(offset, lying.dtype, tuple(lying.shape)).copy_(lying)
            delivered += leaves
        self._synchronize()
        arena.publish()
        return Reply(op=Op.DONE, leaves=tuple(claim(leaf) for leaf in delivered))

    def spare(self, outputs: bool) -> Reply:
        """Give cached memory back, and that of outputs too where they are no longer asked for."""
        if outputs:
            self.outputs = []
        self._held.give_back()
        return Reply(op=Op.DONE)

    def warm(self, compiler: bool = False) -> Reply:
        """Open the device, and the libraries that most models use, before they are needed.

        `compiler` starts the processes in which torch's compiler works, which takes them seconds, and takes
        their assembler here too: with another Triton would compile again whatever they have compiled.
        """
        ones = torch.ones(8, 8, 8, 8, device=self.device)
        torch.nn.functional.conv2d(ones @ ones, ones)
        self._synchronize()
        if compiler:
            with suppress(ImportError, AttributeError):
                from torch._inductor.runtime.compile_tasks import _set_triton_ptxas_path

                _set_triton_ptxas_path()
            with suppress(ImportError, AttributeError, OSError, RuntimeError, AssertionError):
                from torch._inductor.async_compile import AsyncCompile

                AsyncCompile.wakeup()
        return Reply(op=Op.DONE)

    def probe(self, cores: list[int], kept: int | None) -> Reply:
        """Say from which processor core launches are fastest just now; as text each core's microseconds.

        The core `kept` so far stays unless another is clearly faster: a move empties caches.
        """
        own = os.sched_getaffinity(0)
        tiny = torch.zeros(1, device=self.device)
        found = {}
        for core in cores:
            os.sched_setaffinity(0, {core})
            time_launches(self.device, tiny, PROBED_LAUNCHES // 4)
            found[core] = time_launches(self.device, tiny, PROBED_LAUNCHES)
        os.sched_setaffinity(0, own)
        text = " ".join(f"{core}:{microseconds:.1f}" for core, microseconds in found.items())
        best = min(found, key=lambda core: found[core])
        if kept in found and found[kept] <= CLEARLY * found[best]:
            best = kept
        return Reply(op=Op.DONE, count=best, text=text)

    def time(self, at: int, method: str, warmups: int, trials: int) -> Reply:
        """Time calls one by one by a method of KernelBench's; milliseconds as text, for people's own runs."""
        self.buffers["inputs"].refresh()
        with torch.no_grad():
            times = time_calls(self.device, lambda: self._forward(at), method, warmups, trials)
        return Reply(op=Op.DONE, count=len(times), text=" ".join(repr(ms) for ms in times))

    def census(self, at: int, seed: int) -> Reply:
        """Say which kernels one call launches; a claim that only labels are made of."""
        self.buffers["inputs"].refresh()
        seed_all(seed)
        return Reply(op=Op.DONE, text=profile(lambda: self._forward(at)))

    def serve(self) -> None:
        """Answer requests until the oracle hangs up."""
        methods: dict[Op, Callable[..., Reply]] = {
            op: getattr(self, op.name.lower()) for op in Op if hasattr(self, op.name.lower())
        }
        while True:
            try:
                op, facts, fds = self.channel.listen()
            except ChannelClosed:
                return
            try:
                reply = methods[op](**facts, **({"fd": fds[0]} if fds else {}))
            except BaseException as error:  # noqa: BLE001 (whatever the submitted code raises becomes an answer)
                reply = Reply(op=Op.FAILED, text=describe_error(error))
            self.channel.answer(reply)
            self.channel.wait_for_request(self._stay_awake_s(op, reply))

    def _stay_awake_s(self, op: Op, reply: Reply) -> float:
        """How long to stay awake after an answer: to be woken for a delivery takes longer than the delivery.

        A candidate is stopped whenever others are timed; the reference is not, and must not be in the way.
        """
        if self.device != "cuda":
            return 0.0
        if op is Op.DELIVER:
            return SPIN_S if self.is_candidate else STAYS_AWAKE_S
        return SPIN_S if self.is_candidate and op is Op.BATCH and reply.count else 0.0

    def _forget(self) -> None:
        """Let go of the model before and of all that it held, on the device too."""
        if self.module is not None:
            sys.modules.pop(self.module.__name__, None)
        self.model, self.module, self.sets, self.outputs = None, None, [], []
        for buffer in self.buffers.values():
            buffer.close()
        self.buffers.clear()
        gc.collect()
        self._held.forget()

    def _model(self) -> torch.nn.Module:
        if self.model is None:
            raise RuntimeError("no model is built")
        return self.model

    def _forward(self, at: int) -> Any:
        with torch.no_grad():
            return self._model()(*self.sets[at])

    def _exactly(self, at: int) -> Any:
        with torch.no_grad():
            return run_exactly(self._model(), self.sets[at], self.dtype)

    def _synchronize(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()


def init_arguments(init: str) -> list[Any]:
    """Read the constructor's arguments: a literal, or the source of a problem that makes them."""
    if init.startswith("["):
        return list(ast.literal_eval(init))
    module = ModuleType("problem")
    exec(compile(init, "problem", "exec"), module.__dict__)  # noqa: S102 (level 4 makes configuration objects)
    return list(module.__dict__["get_init_inputs"]())


def _input(arena: memory.SharedBuffer, leaf: dict[str, Any]) -> Any:
    if "scalar" in leaf:
        return leaf["scalar"]
    dtype, shape = getattr(torch, leaf["dtype"]), tuple(leaf["shape"])
    return arena.lying(leaf["offset"], dtype, shape, swapped=leaf["swapped"])
