"""The weights of both models: how they are drawn, and how the candidate gets the reference's."""

from __future__ import annotations

import ast
from typing import Any

import torch

from kernel_evaluator import secret_draws
from kernel_evaluator.candidate import memory
from kernel_evaluator.candidate.frames import Op
from kernel_evaluator.stand.buffers import Buffers
from kernel_evaluator.stand.device import Device
from kernel_evaluator.stand.sides import REFERENCE_TIMEOUT_S, Side


class Weights:
    """The weights that a model is built with: `variant` of their values, `drawn_on` the device or the CPU."""

    def __init__(self, init: str, precision: str, buffers: Buffers, device: Device) -> None:
        self._init, self._precision, self._buffers, self._device = init, precision, buffers, device
        self._table: list[list[Any]] = []
        self.seed = secret_draws.seed()
        self.variant, self.drawn_on = "plain", "device"

    @property
    def are_any(self) -> bool:
        """Whether the reference has parameters or buffers at all."""
        return bool(self._table)

    def construction(self) -> dict[str, Any]:
        """What CONSTRUCT says, the same to both sides."""
        return {
            "init": self._init,
            "seed": self.seed,
            "place": self.drawn_on,
            "precision": self._precision,
            "variant": self.variant,
        }

    def facts(self) -> dict[str, Any]:
        """What a counter-example says of the weights, so that it can be shown again."""
        return {"weight_seed": self.seed, "weights": self.variant, "place": self.drawn_on}

    def build(self, reference: Side, variant: str, drawn_on: str, seed: int) -> None:
        """Have the reference build its model with these weights, and show them."""
        self.variant, self.drawn_on, self.seed = variant, drawn_on, seed
        reference.ask(Op.CONSTRUCT, REFERENCE_TIMEOUT_S, **self.construction())
        asked = reference.ask(Op.STATE, REFERENCE_TIMEOUT_S, action="describe", table=[])
        described = ast.literal_eval(asked.text)
        sizes = [torch.Size(shape).numel() * getattr(torch, dtype).itemsize for _, dtype, shape in described]
        offsets, nbytes = memory.layout(sizes)
        table = [[*entry, offset] for entry, offset in zip(described, offsets, strict=True)]
        if table != self._table:
            self._table = table
            self._buffers.share("state", nbytes)
        if table:
            reference.ask(Op.STATE, REFERENCE_TIMEOUT_S, action="export", table=table)

    def align(self, side: Side, timeout_s: float) -> str:
        """Give the candidate the reference's weights: they were `equal`, are `loaded`, or are `unlike`."""
        if self._table:
            ours, theirs = self._buffers.reference["state"], side.buffers["state"]
            ours.refresh()
            theirs.tensor.copy_(ours.tensor)
            theirs.publish()
            self._device.settle()
        return side.ask(Op.STATE, timeout_s, action="load", table=self._table).text
