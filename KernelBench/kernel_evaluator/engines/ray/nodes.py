"""The machines of a Ray cluster: which have devices of the board's model, and which are free for builds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from kernel_evaluator.engines.ray import remote
from kernel_evaluator.machine.figures import gpu_model

BUILDS_ONLY = "kbl_build"
"""The resource of machines that are left to builds: ray start --resources='{"kbl_build": 1}'."""
LOOK_TIMEOUT_S = 90.0
_MEMORY_STEP_MIB = 4096
"""Devices of a model whose memory differs by more are another model: 40 and 80 GB are sold under one name."""

Kind = tuple[str, int]
"""A GPU's model, and its memory in steps."""


@dataclass(frozen=True, kw_only=True)
class Node:
    """A machine: how many devices of the board's it has, processors for each, and for builds."""

    id: str
    devices: int
    cores_a_device: int
    builds: int


@dataclass(kw_only=True)
class Board:
    """Which devices count: those of one model and memory. `gpu` is `CPU` where there are none."""

    gpu: str
    memory: int = 0
    _known: dict[str, list[Kind]] = field(default_factory=dict)

    def demand(self, devices: int) -> None:
        """Tell an autoscaler how many devices are wanted; nobody else takes notice."""
        from ray.autoscaler.sdk import request_resources

        if self.gpu != "CPU":
            bundle = {"GPU": 1, f"accelerator_type:{self.gpu}": 0.001}
            request_resources(bundles=[bundle] * devices)

    def count(self, node: str, devices: int) -> int:
        """Say how many devices of a machine are the board's; none where it has others too."""
        kinds = self._known.get(node) or _look(node)
        self._known[node] = kinds
        fits = [kind for kind in kinds if kind == (self.gpu, self.memory or kind[1])]
        return devices if len(fits) == len(kinds) >= devices else 0


def boards() -> Counter[Kind]:
    """Count the GPUs of the cluster by model and memory."""
    found: Counter[Kind] = Counter()
    for node in ray.nodes():
        if node["Alive"] and node["Resources"].get("GPU", 0):
            found.update(_look(node["NodeID"]))
    return found


def alive_nodes(board: Board, device: str) -> Iterator[Node]:
    """List the machines that are there."""
    for node in ray.nodes():
        if not node["Alive"]:
            continue
        resources = node["Resources"]
        cores = int(resources.get("CPU", 0))
        gpus = int(resources.get("GPU", 0))
        if device == "cpu":
            devices = int(cores > 0 and BUILDS_ONLY not in resources)
        else:
            devices = board.count(node["NodeID"], gpus) if gpus else 0
        yield Node(
            id=node["NodeID"],
            devices=devices,
            cores_a_device=cores // devices if devices else 0,
            builds=0 if devices or (gpus and device != "cpu") else cores,
        )


def _look(node: str) -> list[Kind]:
    task = ray.remote(remote.look).options(
        num_cpus=0, scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)
    )
    try:
        listed = ray.get(task.remote(), timeout=LOOK_TIMEOUT_S)
    except RayError:
        return []
    return [(gpu_model(name), round(memory / _MEMORY_STEP_MIB)) for name, memory in listed]
