"""Shows a counter-example once more: the same weights, inputs and call, with both sides' values at its place.

Runs the kernel confined, as every candidate. Decides nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kernel_evaluator.candidate.frames import Op
from kernel_evaluator.candidate.processes import Home, RunFailed, Zygote
from kernel_evaluator.machine import processors
from kernel_evaluator.oracle import WARM_S, handles_can_be_shared
from kernel_evaluator.problems.jobs import Job, Settings
from kernel_evaluator.stand.stand import Stand


@dataclass(frozen=True, kw_only=True)
class Replay:
    """What both sides give at the counter-example's place, and the worst error over the tolerance."""

    expected: str
    found: str
    worst: float

    @property
    def is_wrong(self) -> bool:
        """Whether the output is wrong again."""
        return not self.worst <= 1.0


def replay(job: Job, settings: Settings, example: Mapping[str, Any]) -> Replay:
    """Run one call of the kernel and of the reference as `example`, a row's `counter_example`, says.

    Raises RunFailed where the kernel does not answer. Inputs are drawn again from their seed, which gives the
    same values on the same kind of device with the same torch.
    """
    home = Home(
        device=settings.device,
        threads=processors.for_models(),
        memory_bytes=int(settings.memory_gb * 2**30),
    )
    fallback = settings.device == "cuda" and not handles_can_be_shared()
    with Zygote(home) as zygote:
        reference, candidate = zygote.fork(confined=False), zygote.fork(confined=True)
        try:
            for process in (reference, candidate):
                process.ask(Op.WARM, WARM_S)
            stand = Stand(job.problem, settings, reference, fallback=fallback)
            stand.build_reference(
                example.get("weights", "plain"), example.get("place", "device"), example.get("weight_seed")
            )
            candidate.ask(Op.LOAD, settings.timeout_s, source=job.source, class_name="ModelNew")
            side = stand.admit(candidate, settings.timeout_s)
            candidate.ask(Op.CONSTRUCT, settings.timeout_s, **stand.weights.construction())
            stand.weights.align(side, settings.timeout_s)
            stand.inputs.put(0, lambda: stand.source.draw(example["seed"], example["distribution"]))
            call_seed = example.get("call_seed", 0)
            right = [tensor.clone() for tensor in stand.expect(0, call_seed)]
            side.buffers["inputs"].publish()
            stand.device.settle()
            reply = candidate.ask(
                Op.CALL, settings.timeout_s, at=0, seed=call_seed, poison=1 << 20, strict=False
            )
            if reply.text != stand.outputs.structure:
                raise RunFailed(
                    "WrongStructure", f"expected {stand.outputs.structure}, got {reply.text[:200]}"
                )
            side.deliver([0], [stand.outputs.slot(0)], settings.timeout_s)
            given = stand.outputs.read(side)
            output, index = example["output"], example["index"]
            return Replay(
                expected=repr(right[output].reshape(-1)[index].item()),
                found=repr(given[output].reshape(-1)[index].item()),
                worst=stand.worst(right, given, example["distribution"]),
            )
        finally:
            candidate.end()
            reference.end()
