"""The stand on which one problem is judged: the reference in its process, buffers, inputs, the clock.

Kept as long as kernels of the same problem come, so that the reference is loaded and warmed once.
Everything here is the oracle's; the candidate sees its own buffers and nothing else.
"""

from __future__ import annotations

import ast
import math
import secrets
import time
from collections.abc import Callable
from typing import Any

import torch

from kernelbench import batches, compare, memory
from kernelbench.frames import MAX_LEAVES, Leaf, Op, Reply
from kernelbench.inputs import InputSource
from kernelbench.jobs import Settings
from kernelbench.problems import Problem
from kernelbench.processes import RunnerProcess
from kernelbench.runner import PRECISIONS
from kernelbench.sides import REFERENCE_TIMEOUT_S, ReferenceFailed, Side

DEAL_MS = {"cuda": 8.0, "cpu": 20.0}
"""How long the calls of a deal should take on each side: so long that message round trips do not matter."""

MAX_SLOTS, SLOTS_BYTES = 16, 1 << 28
"""So many outputs may be delivered at once, and one that is larger alone."""

BRIEF_MS = 0.5
"""Calls that take less are timed once more as many in a row: a single one takes longer."""

MAX_SETS = 256
SETS_BYTES = {"cuda": 8 << 30, "cpu": 1 << 28}
"""Inputs and outputs of a deal take at most this much on each side; a deal of one call may take more."""


class Bench:
    """A problem ready to be judged. Raises ReferenceFailed where its reference does not run."""

    def __init__(
        self, problem: Problem, settings: Settings, reference: RunnerProcess, *, fallback: bool
    ) -> None:
        self.problem, self.settings = problem, settings
        self.device, self._fallback = settings.device, fallback
        self.source = InputSource(problem, settings.device, PRECISIONS[settings.precision])
        self.weight_seed = secrets.randbits(60)
        self.init = self.source.init_arguments()
        self.place = "device"
        self.calls = self.sets = 1
        self.core: int | None = None
        self.core_chosen_at = -math.inf
        self.reference = Side(process=reference, buffers={}, trusted=True)
        self.candidate_buffers: dict[str, memory.SharedBuffer] = {}
        self.floors: dict[str, float] = {}
        self.times_weighed = 0
        self.skipped: set[str] = set()
        self.variant = "plain"
        self.table: list[list[Any]] = []
        self.writing_bias_ms = 0.0
        self.has_device_alone: bool | None = None
        self._tiny = torch.zeros(1, device=self.device)
        try:
            self._prepare()
        except (ReferenceFailed, torch.cuda.OutOfMemoryError):
            self.close()
            raise

    def ask_reference(self, op: Op, **facts: Any) -> Reply:
        """Ask the reference's process; its failures are ours."""
        return self.reference.ask(op, REFERENCE_TIMEOUT_S, **facts)

    def build_reference(self, variant: str = "plain", place: str | None = None) -> None:
        """Build the reference's model: its variant of weights, drawn on the device or the CPU."""
        if variant != self.variant:
            self.floors = {}
        self.variant, self.place = variant, place or self.place
        self.ask_reference(Op.CONSTRUCT, **self.construction())
        self._export_state()

    @property
    def usual(self) -> str:
        """What timed inputs are mostly like: upstream's; under KernelBench's tolerance with its weights."""
        return "plain" if self.variant == "plain" else "upstream"

    def calls_for(self, call_ms: float) -> int:
        """So many calls as fill a deal, as far as memory for their inputs and outputs goes.

        No more than now where the reference draws random numbers, since it must run every call that the
        candidate runs, and where memory is copied through the host.
        """
        return self.calls if self.is_random or self._fallback else self._calls_in_a_deal(call_ms)

    def _calls_in_a_deal(self, call_ms: float) -> int:
        wanted = math.ceil(DEAL_MS[self.device] / max(call_ms, 1e-3))
        a_set = self.input_bytes + self.output_bytes
        limit = SETS_BYTES[self.device]
        if self.device == "cuda":
            limit = min(limit, torch.cuda.mem_get_info()[0] // 4)
        affordable = max(1, limit // max(a_set, 1))
        return min(wanted, affordable, MAX_SETS)

    def hold(self, sets: int) -> bool:
        """Have memory for so many input sets on both sides; say whether they lie elsewhere since."""
        if sets <= self.sets:
            return False
        self.sets = sets
        self._place_inputs()
        self.ask_reference(Op.INPUTS, sets=self.input_sets())
        return True

    def show_inputs(self, side: Side, timeout_s: float) -> None:
        """Tell a candidate where its inputs lie."""
        side.hand_over("inputs", timeout_s)
        side.ask(Op.INPUTS, timeout_s, sets=self.input_sets())

    def construction(self) -> dict[str, Any]:
        """What CONSTRUCT says, the same to both sides."""
        return {
            "init": self.init,
            "seed": self.weight_seed,
            "place": self.place,
            "precision": self.settings.precision,
            "variant": self.variant,
        }

    def weight_facts(self) -> dict[str, Any]:
        """What a counter-example says of the weights, so that it can be shown again."""
        return {"weight_seed": self.weight_seed, "weights": self.variant, "place": self.place}

    def expect(self, at: int, seed: int, *, strict: bool = False, exact: bool = False) -> list[torch.Tensor]:
        """Run the reference on an input set; give views of its outputs, good until it runs again."""
        self.reference.buffers["inputs"].publish()
        self.settle()
        self.ask_reference(Op.CALL, at=at, seed=seed, poison=0, strict=strict, exact=exact)
        self.reference.deliver([0], [self.slot(0)], REFERENCE_TIMEOUT_S)
        return self.read_outputs(self.reference)

    def slot(self, number: int) -> list[int]:
        """Where the tensors of an output go in a slot of the buffer for outputs."""
        return [number * self.output_bytes + offset for offset in self._output_offsets]

    def read_outputs(self, side: Side, *, kept: bool = False) -> list[torch.Tensor]:
        """Give what a side delivered to the first slot, row-major: copies if `kept`, else views if it can."""
        arena = side.buffers["outputs"]
        arena.refresh()
        self.settle()
        return self._lying_in(arena, side, 0, kept=kept)

    def keep_outputs(self, side: Side, count: int) -> list[list[torch.Tensor]]:
        """Copy what a side delivered last to so many slots, at once: what is written later goes unseen."""
        if count == 1:
            kept = [self.read_outputs(side, kept=True)]
        else:
            arena = side.buffers["outputs"]
            arena.refresh()
            copied = memory.SharedBuffer(arena.tensor[: count * self.output_bytes].clone(), -1)
            kept = [self._lying_in(copied, side, number) for number in range(count)]
        self.settle()
        return kept

    def _lying_in(
        self, arena: memory.SharedBuffer, side: Side, number: int, *, kept: bool = False
    ) -> list[torch.Tensor]:
        said = side.delivered[number * len(self.output_leaves) :]
        found = []
        for at, (leaf, offset) in enumerate(zip(self.output_leaves, self.slot(number), strict=True)):
            order = said[at].order if at < len(said) else ()
            if len(order) != len(leaf.shape):
                order = tuple(range(len(leaf.shape)))
            lying = arena.view(offset, getattr(torch, leaf.dtype), tuple(leaf.shape[each] for each in order))
            ordered = lying.permute(sorted(range(len(order)), key=order.__getitem__))
            found.append(
                ordered.clone(memory_format=torch.contiguous_format) if kept else ordered.contiguous()
            )
        return found

    def tolerance(self, expected: torch.Tensor, distribution: str) -> compare.Tolerance:
        """The tolerance at scale 1: KernelBench's in plain trials, relative to the output elsewhere."""
        base = compare.TOLERANCES[self.settings.precision]
        size = compare.root_mean_square(expected) if distribution != "plain" else 0.0
        return compare.Tolerance(absolute=base * size if size > 0 else base, relative=base)

    def worst(self, expected: list[torch.Tensor], found: list[torch.Tensor], distribution: str) -> float:
        """The largest error over all outputs, as a share of the tolerance."""
        pairs = zip(expected, found, strict=True)
        return max(compare.compare(e, f, self.tolerance(e, distribution)).worst for e, f in pairs)

    def put(self, at: int, draw: Callable[[], list[Any]], *, secretly: bool = False) -> None:
        """Draw an input set and keep it; unless `secretly`, show it to both sides."""
        self.drawn[at] = []  # the memory is needed for the next
        self.drawn[at] = draw()
        if not secretly:
            for buffers in (self.reference.buffers, self.candidate_buffers):
                self.write(buffers["inputs"], at)

    def write(self, arena: memory.SharedBuffer, at: int) -> None:
        """Write what was drawn for an input set into a side's buffer."""
        for offset, leaf, value in zip(self._offsets(at), self.source.leaves, self.drawn[at], strict=True):
            if leaf.dtype is not None:
                arena.view(offset, leaf.dtype, leaf.shape).copy_(value)

    def scramble(self, side: Side) -> None:
        """Overwrite a side's inputs, so that nothing can be computed from them any more."""
        arena = side.buffers["inputs"]
        if self.aliases or arena.is_fallback:
            return
        arena.tensor.fill_(0xFF)
        self.settle()

    def inputs_differ(self, at: int) -> bool:
        """Whether the two sides' copies of an input set are no longer the same."""
        ours, theirs = self.reference.buffers["inputs"], self.candidate_buffers["inputs"]
        theirs.refresh()
        return any(
            not compare.same_bits(
                ours.view(o, leaf.dtype, leaf.shape), theirs.view(o, leaf.dtype, leaf.shape)
            )
            for o, leaf in zip(self._offsets(at), self.source.leaves, strict=True)
            if leaf.dtype is not None
        )

    def inputs_changed(self, side: Side, at: int) -> bool:
        """Whether an input set of a side is no longer what the oracle wrote."""
        arena = side.buffers["inputs"]
        arena.refresh()
        return any(
            not compare.same_bits(value.contiguous(), arena.view(offset, leaf.dtype, leaf.shape))
            for offset, leaf, value in zip(self._offsets(at), self.source.leaves, self.drawn[at], strict=True)
            if leaf.dtype is not None
        )

    def input_sets(self) -> list[list[dict[str, Any]]]:
        """What INPUTS says: for each set, where its tensors lie."""
        return [
            [
                {"scalar": leaf.scalar}
                if leaf.dtype is None
                else {"offset": offset, "dtype": str(leaf.dtype).removeprefix("torch."), "shape": leaf.shape}
                for offset, leaf in zip(self._offsets(at), self.source.leaves, strict=True)
            ]
            for at in range(self.sets)
        ]

    def admit(self, process: RunnerProcess, timeout_s: float) -> Side:
        """Give a candidate's process its buffers."""
        side = Side(process=process, buffers=self.candidate_buffers)
        for name in self.candidate_buffers:
            if name != "inputs":
                side.hand_over(name, timeout_s)
        self.show_inputs(side, timeout_s)
        return side

    def align(self, side: Side, timeout_s: float) -> str:
        """Give the candidate the reference's weights: they were `equal`, are `loaded`, or are `unlike`."""
        if self.table:
            ours, theirs = self.reference.buffers["state"], side.buffers["state"]
            ours.refresh()
            theirs.tensor.copy_(ours.tensor)
            theirs.publish()
            self.settle()
        return side.ask(Op.STATE, timeout_s, action="load", table=self.table).text

    def device_memory_gb(self) -> float | None:
        """What everything on the device holds now, both sides and the oracle together, in GiB."""
        if self.device != "cuda":
            return None
        free, total = torch.cuda.mem_get_info()
        return (total - free) / 2**30

    def settle(self) -> None:
        """Wait until the oracle's own work on the device is done."""
        if self.device == "cuda":
            torch.cuda.synchronize()

    def survey(self) -> None:
        """See what of the device is others', and how long writing takes, while no kernel is loaded."""
        self.has_device_alone = batches.falls_quiet(self)
        self.writing_bias_ms = batches.writing_bias(self, self.calls)

    def touch_device(self) -> float:
        """Do next to nothing on the device; seconds until it is done."""
        if self.device != "cuda":
            return 0.0
        start = time.perf_counter()
        self._tiny.add_(1)
        self.settle()
        return time.perf_counter() - start

    def close(self) -> None:
        """Give back the buffers; ending the reference's process is left to whoever started it."""
        for buffer in [*self.reference.buffers.values(), *self.candidate_buffers.values()]:
            buffer.close()
        self.reference.buffers, self.candidate_buffers = {}, {}
        self.drawn.clear()
        if self.device == "cuda":
            torch.cuda.empty_cache()

    def _prepare(self) -> None:
        self.ask_reference(Op.LOAD, source=self.problem.sized_source, class_name="Model")
        self._place_inputs()
        self.build_reference()
        self.ask_reference(Op.INPUTS, sets=self.input_sets())
        seed = secrets.randbits(60)
        # Signed inputs show what happens to inputs in place; upstream's are often left as they are.
        telling = "signed" if "signed" in self.source.distributions() else "upstream"
        self.put(0, lambda: self.source.draw(seed, telling))
        self.reference.buffers["inputs"].publish()
        self.settle()
        reply = self.ask_reference(Op.CALL, at=0, seed=seed, poison=0, strict=False)
        self.output_leaves, self.structure = reply.leaves, reply.text
        self.mutates = self.inputs_differ(0)
        sizes = [leaf_bytes(leaf) for leaf in self.output_leaves]
        self._output_offsets, self.output_bytes = memory.layout(sizes)
        affordable = 1 if self._fallback else SLOTS_BYTES // max(self.output_bytes, 1)
        self.slots = max(1, min(MAX_SLOTS, affordable, MAX_LEAVES // max(len(sizes), 1)))
        self._share("outputs", self.output_bytes * self.slots)
        self.is_random = self.mutates  # what it draws cannot be told from what it changes
        self.aliases = self.mutates or self._reference_aliases(seed)
        self.alone_ms = min(batches.measure_alone(self, 2))
        self.calls = self._calls_in_a_deal(self.alone_ms)
        if self.calls > 1:
            self.hold(self.calls)
            for at in range(self.calls):
                self.put(at, lambda: self.source.draw(secrets.randbits(60)))
        if self.alone_ms < BRIEF_MS:
            self.alone_ms = min(batches.measure_alone(self))

    def _reference_aliases(self, seed: int) -> bool:
        """Whether the reference's outputs are its inputs' memory: whether they change when the inputs do.

        Notes also whether they change with the seed of the call: such a reference draws random numbers.
        """
        expected = [tensor.clone() for tensor in self.expect(0, seed)]
        self.is_random = self.worst(expected, self.expect(0, secrets.randbits(60)), "plain") > 1.0
        self.ask_reference(Op.CALL, at=0, seed=seed, poison=0, strict=False)
        self.reference.buffers["inputs"].tensor.fill_(0xFF)
        self.settle()
        self.reference.deliver([0], [self.slot(0)], REFERENCE_TIMEOUT_S)
        again = self.read_outputs(self.reference)
        return self.worst(expected, again, "plain") > 1.0

    def _place_inputs(self) -> None:
        sizes = [leaf.nbytes for leaf in self.source.leaves]
        self._leaf_offsets, self.input_bytes = memory.layout(sizes)
        self._share("inputs", self.input_bytes * self.sets)
        self.drawn: list[list[Any]] = [[] for _ in range(self.sets)]

    def _offsets(self, at: int) -> list[int]:
        return [at * self.input_bytes + offset for offset in self._leaf_offsets]

    def _share(self, name: str, nbytes: int) -> None:
        for buffers in (self.reference.buffers, self.candidate_buffers):
            if name in buffers:
                buffers.pop(name).close()
            buffers[name] = memory.create(nbytes, self.device, fallback=self._fallback)
        self.reference.hand_over(name, REFERENCE_TIMEOUT_S)

    def _export_state(self) -> None:
        described = ast.literal_eval(self.ask_reference(Op.STATE, action="describe", table=[]).text)
        sizes = [torch.Size(shape).numel() * getattr(torch, dtype).itemsize for _, dtype, shape in described]
        offsets, nbytes = memory.layout(sizes)
        table = [[*entry, offset] for entry, offset in zip(described, offsets, strict=True)]
        if table != self.table:
            self.table = table
            self._share("state", nbytes)
        if table:
            self.ask_reference(Op.STATE, action="export", table=table)


def leaf_bytes(leaf: Leaf) -> int:
    """Bytes of an output."""
    return torch.Size(leaf.shape).numel() * int(getattr(torch, leaf.dtype).itemsize)
