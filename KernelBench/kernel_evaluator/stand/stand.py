"""The stand on which one problem is judged: its reference in a process, and what both sides are given.

Kept as long as kernels of the same problem come, so that the reference is loaded and warmed once.
Everything here is the oracle's; the candidate sees its own buffers and nothing else.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from kernel_evaluator import secret_draws
from kernel_evaluator.candidate.frames import Op, Reply
from kernel_evaluator.candidate.processes import RunnerProcess
from kernel_evaluator.numerics import compare
from kernel_evaluator.problems.deciding import deal_for
from kernel_evaluator.problems.inputs import PRECISIONS, InputSource
from kernel_evaluator.problems.jobs import Settings
from kernel_evaluator.problems.problem_set import Problem
from kernel_evaluator.stand.buffers import Buffers
from kernel_evaluator.stand.cores import LaunchCore
from kernel_evaluator.stand.device import Device
from kernel_evaluator.stand.input_sets import InputSets
from kernel_evaluator.stand.output_slots import OutputSlots
from kernel_evaluator.stand.rounding import SAMPLE, Rounding
from kernel_evaluator.stand.sides import REFERENCE_TIMEOUT_S, ReferenceFailed, Side, problem_at_work
from kernel_evaluator.stand.weights import Weights

DEAL_MS = {"cuda": 8.0, "cpu": 20.0}
"""How long the calls of a deal should take on each side: so long that message round trips do not matter."""

MAX_SETS = 256
SETS_BYTES = {"cuda": 8 << 30, "cpu": 1 << 28}
"""Inputs and outputs of a deal take at most this much on each side; a deal of one call may take more."""

LARGE_TIMES = 5
"""Where so many times a call's inputs and outputs do not fit, a side keeps no memory that it does not use."""

ROOM_BYTES = 8 << 30
"""So much more than its reference needs a kernel must find free: to run out of less is no kernel's fault."""


@dataclass(frozen=True, kw_only=True)
class Manners:
    """What the reference does besides computing: to its inputs, with their memory, with random numbers."""

    mutates: bool
    aliases: bool
    is_random: bool


class Stand:
    """A problem ready to be judged. Raises ReferenceFailed where its reference does not run."""

    def __init__(
        self,
        problem: Problem,
        settings: Settings,
        reference: RunnerProcess,
        *,
        fallback: bool,
        may_be_exact: bool = True,
    ) -> None:
        self.problem, self.settings = problem, settings
        self.device = Device(settings.device)
        self.reference = Side(process=reference, buffers={}, trusted=True)
        self.core = LaunchCore(settings.device, self.reference)
        self.rounding = Rounding(self, compare.TOLERANCES[settings.precision], may_be_exact=may_be_exact)
        self.calls, self.alone_ms, self._needs_bytes = 1, 0.0, 0.0
        self.overheads_ms = 0.0, 0.0
        self._mute: set[str] = set()
        self._buffers = Buffers(self.reference, settings.device, fallback=fallback)
        try:
            self._prepare()
        except (ReferenceFailed, torch.cuda.OutOfMemoryError):
            self._give_back()
            raise

    def _prepare(self) -> None:
        """Load the reference, and see what it gives and how it behaves."""
        self.ask_reference(Op.LOAD, source=self.problem.sized_source, class_name="Model")
        precision = self.settings.precision
        with problem_at_work():
            self.source = InputSource(self.problem, self.settings.device, PRECISIONS[precision])
            init_arguments = self.source.init_arguments()
        self.deal = deal_for(self.problem, precision, self.source.distributions())
        self.inputs = InputSets(self.source.leaves, self._buffers, self.device)
        self.weights = Weights(init_arguments, precision, self._buffers, self.device)
        self.build_reference()
        self.ask_reference(Op.INPUTS, sets=self.inputs.said())
        seed = secret_draws.seed()
        # Signed inputs show what happens to inputs in place; upstream's are often left as they are.
        telling = "signed" if "signed" in self.source.distributions() else "upstream"
        self.inputs.put(0, lambda: self.source.draw(seed, telling))
        self.reference.buffers["inputs"].publish()
        self.device.settle()
        reply = self.ask_reference(Op.CALL, at=0, seed=seed, poison=0, strict=False)
        self.outputs = OutputSlots(reply.leaves, reply.text, self._buffers, self.device)
        self.manners = self._learn_manners(mutates=self.inputs.differ(0))

    def _learn_manners(self, *, mutates: bool) -> Manners:
        """Whether outputs change with the seed of a call, and when the inputs' memory does.

        The reference was just called. It is called only once more: a call may take a tenth of a second.
        """
        if mutates:  # what it draws cannot be told from what it changes
            return Manners(mutates=True, aliases=True, is_random=True)
        kept = [tensor.clone() for tensor in self._glimpsed()]
        reply = self.ask_reference(Op.CALL, at=0, seed=secret_draws.seed(), poison=0, strict=False)
        self._needs_bytes = reply.number
        found = [tensor.clone() for tensor in self._glimpsed()]
        is_random = self.worst(kept, found, "plain") > 1.0
        self.reference.buffers["inputs"].tensor.fill_(0xFF)
        self.device.settle()
        aliases = self.worst(found, self._glimpsed(), "plain") > 1.0
        return Manners(mutates=False, aliases=aliases, is_random=is_random)

    def _glimpsed(self) -> list[torch.Tensor]:
        """Some elements of each output of the reference's last call: manners show in all of them."""
        return [compare.sample(tensor, SAMPLE) for tensor in self._delivered()]

    def _delivered(self) -> list[torch.Tensor]:
        """Views of the outputs of the reference's last call, as they are now."""
        self.reference.deliver([0], [self.outputs.slot(0)], REFERENCE_TIMEOUT_S)
        return self.outputs.read(self.reference)

    def ask_reference(self, op: Op, **facts: Any) -> Reply:
        """Ask the reference's process; its failures are ours."""
        return self.reference.ask(op, REFERENCE_TIMEOUT_S, **facts)

    def build_reference(
        self, variant: str = "plain", drawn_on: str | None = None, seed: int | None = None
    ) -> None:
        """Build the reference's model with other weights; where and from which seed as before if left out."""
        if variant != self.weights.variant:
            self.rounding.forget()
        weights = self.weights
        weights.build(
            self.reference,
            variant,
            drawn_on or weights.drawn_on,
            weights.seed if seed is None else seed,
        )

    @property
    def is_large(self) -> bool:
        """Whether a call's inputs and outputs fill so much of the device that sides must spare memory."""
        return LARGE_TIMES * (self.inputs.nbytes + self.outputs.nbytes) > self.device.total_bytes

    def spare(self, side: Side, timeout_s: float = REFERENCE_TIMEOUT_S, *, outputs: bool = True) -> None:
        """On a device that is nearly full, have a side give back what it does not need till its next call."""
        if self.is_large:
            side.ask(Op.SPARE, timeout_s, outputs=outputs)

    def lacks_room(self) -> str:
        """Say what a kernel found too little of, where that was our doing; for when its process has ended."""
        self.device.give_back()
        free, wanted = self.device.free_bytes(), self._needs_bytes + ROOM_BYTES
        if free >= wanted:
            return ""
        return f"it was left {free / 2**30:.1f} GiB of the device, and should be {wanted / 2**30:.1f}"

    def note_pace(self, alone_ms: float) -> None:
        """Note how many milliseconds a call of the reference takes alone."""
        self.alone_ms = alone_ms

    def note_overheads(self, one_ms: float, all_ms: float) -> None:
        """Note what a batch of one call, and one of all, takes besides while the reference is alone."""
        self.overheads_ms = one_ms, all_ms

    def fill_deal(self) -> None:
        """Have as many input sets as fill a deal at the reference's pace."""
        self.calls = self._calls_in_a_deal(self.alone_ms)
        if self.calls > 1:
            self.hold(self.calls)
            for at in range(self.calls):
                self.inputs.put(at, lambda: self.source.draw(secret_draws.seed()))

    def calls_for(self, call_ms: float) -> int:
        """So many calls as fill a deal, as far as memory for their inputs and outputs goes.

        No more than now where the reference draws random numbers, since it must run every call that the
        candidate runs, and where memory is copied through the host.
        """
        is_fixed = self.manners.is_random or self._buffers.is_fallback
        return self.calls if is_fixed else self._calls_in_a_deal(call_ms)

    def _calls_in_a_deal(self, call_ms: float) -> int:
        kind = self.device.kind
        wanted = math.ceil(DEAL_MS[kind] / max(call_ms, 1e-3))
        a_set = self.inputs.nbytes + self.outputs.nbytes
        limit = SETS_BYTES[kind]
        if self.device.is_gpu:
            limit = min(limit, torch.cuda.mem_get_info()[0] // 4)
        affordable = max(1, limit // max(a_set, 1))
        return min(wanted, affordable, MAX_SETS)

    def hold(self, sets: int) -> bool:
        """Have memory for so many input sets on both sides; say whether they lie elsewhere since."""
        if sets <= self.inputs.count:
            return False
        self.inputs.hold(sets)
        self.ask_reference(Op.INPUTS, sets=self.inputs.said())
        return True

    @property
    def is_gone(self) -> bool:
        """Whether the reference's process has ended."""
        return self.reference.process.is_ended

    def expect(self, at: int, seed: int, *, strict: bool = False, exact: bool = False) -> list[torch.Tensor]:
        """Run the reference on an input set; give views of its outputs, good until it runs again."""
        self.reference.buffers["inputs"].publish()
        self.device.settle()
        reply = self.ask_reference(Op.CALL, at=at, seed=seed, poison=0, strict=strict, exact=exact)
        self._needs_bytes = max(self._needs_bytes, reply.number)
        found = self._delivered()
        self.spare(self.reference)
        return found

    def answer(
        self, distribution: str, seed: int, *, strict: bool = False, exact: bool = False, nudge: bool = False
    ) -> list[torch.Tensor]:
        """Run the reference on inputs drawn from a seed, in the first set's place; views as of `expect`."""
        self.inputs.put(0, lambda: self.source.draw(seed, distribution, nudge=nudge))
        if self.is_large:
            gc.collect()  # a probe that ran out of memory holds outputs of gigabytes in a cycle
            self.device.give_back()
        return self.expect(0, seed, strict=strict, exact=exact)

    def worst(self, expected: list[torch.Tensor], found: list[torch.Tensor], distribution: str) -> float:
        """The largest error over all outputs, as a share of the tolerance."""
        return max(
            compare.compare(
                right, given, compare.tolerance_of(right, self.settings.precision, distribution)
            ).worst
            for right, given in zip(expected, found, strict=True)
        )

    def says_nothing(self, distribution: str, expected: list[torch.Tensor] | None = None) -> bool:
        """Whether a distribution was left out, or is from now on: the reference's outputs are not finite."""
        is_other = distribution not in ("plain", "upstream")
        if is_other and any(compare.has_non_finite(tensor) for tensor in expected or ()):
            self._mute.add(distribution)
        return distribution in self._mute

    @contextmanager
    def away(self) -> Iterator[None]:
        """Within this the stand may be moved to other inputs; later the reference has its own again."""
        own = self.source, self.inputs, self.outputs, self.rounding, self._mute
        self.inputs.forget_all()
        try:
            yield
        finally:
            self.inputs.forget_all()
            self.source, self.inputs, self.outputs, self.rounding, self._mute = own
            self.device.give_back()
            self.ask_reference(Op.INPUTS, sets=self.inputs.said())

    def move(self, side: Side, source: InputSource, timeout_s: float, *, swapped: bool) -> None:
        """Take inputs of other shapes for the same model, or such that lie `swapped` in memory.

        Raises ReferenceFailed where the reference does not take them.
        """
        self.inputs.forget_all()
        self.device.give_back()
        self.source, self._mute = source, set()
        self.inputs = InputSets(source.leaves, self._buffers, self.device, swapped=swapped)
        base, may_be_exact = compare.TOLERANCES[self.settings.precision], self.rounding.may_be_exact
        self.rounding = Rounding(self, base, may_be_exact=may_be_exact)
        self.ask_reference(Op.INPUTS, sets=self.inputs.said())
        self.inputs.put(0, lambda: source.draw(secret_draws.seed()))
        self.reference.buffers["inputs"].publish()
        self.device.settle()
        reply = self.ask_reference(Op.CALL, at=0, seed=secret_draws.seed(), poison=0, strict=False)
        self.outputs = OutputSlots(reply.leaves, reply.text, self._buffers, self.device)
        side.hand_over("outputs", timeout_s)
        self.inputs.show(side, timeout_s)

    def admit(self, process: RunnerProcess, timeout_s: float) -> Side:
        """Give a candidate's process its buffers."""
        side = Side(process=process, buffers=self._buffers.candidate)
        for name in side.buffers:
            if name != "inputs":
                side.hand_over(name, timeout_s)
        self.inputs.show(side, timeout_s)
        return side

    def publish_inputs(self) -> None:
        """Let both sides see what lies in their buffers for inputs."""
        for buffers in (self._buffers.reference, self._buffers.candidate):
            buffers["inputs"].publish()
        self.device.settle()

    def scramble(self, side: Side) -> None:
        """Overwrite a side's inputs, unless the reference's outputs are their memory."""
        if not self.manners.aliases:
            self.inputs.scramble(side)

    def survey(self) -> None:
        """See what of the device is others', and how long writing takes, while no kernel is loaded."""
        self.device.survey()
        self.inputs.survey(self.calls)

    def close(self) -> None:
        """Give back the buffers; ending the reference's process is left to whoever started it."""
        self.inputs.forget_all()
        self._give_back()

    def _give_back(self) -> None:
        self._buffers.close()
        if self.device.is_gpu:
            torch.cuda.empty_cache()
