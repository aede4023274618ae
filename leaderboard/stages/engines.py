"""The engines by name, the one place where they are told apart, and the devices that they judge on."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from kernel_evaluator.labels.sources import Backend
from kernel_evaluator.machine.devices import visible_devices
from kernel_evaluator.machine.extras import require
from kernel_evaluator.machine.figures import gpu_model
from kernel_evaluator.problems.jobs import Engine, Job, Progress, Settings, Verdict

from leaderboard.stages.uses import backends_of


class EvaluationError(Exception):
    """The evaluation cannot go on. The message says why and what to do."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where an evaluation runs: the engine, and the GPU model that its rows must name."""

    engine: Engine
    gpu: str


def visible_gpus(indices: Sequence[int] | None = None) -> list[str]:
    """Name the GPUs that this process may use (those of `indices`), creating no context; [] for none."""
    names = list(visible_devices().values())
    if indices is None:
        return names
    if not set(indices) <= set(range(len(names))):
        raise EvaluationError(f"--gpus must be indices below {len(names)}, got {sorted(indices)}")
    return [names[index] for index in indices]


def gpu_of(device: str, gpus: Sequence[int] | None = None) -> str:
    """Name the board that the devices of this machine judge for: of one model, since a board has one.

    Raises EvaluationError where there is none, or where there are several.
    """
    models = {gpu_model(name) for name in visible_gpus(gpus)} if device == "cuda" else {"CPU"}
    if not models:
        raise EvaluationError("no GPU found; choose --device cpu")
    if len(models) > 1:
        raise EvaluationError(f"one GPU model is needed, found {sorted(models)}; choose with --gpus")
    return models.pop()


def chosen_device(device: str, engine: str = "local", gpus: Sequence[int] | None = None) -> str:
    """Settle on `cuda` or `cpu` where `auto` is given: a GPU where there is one, or where one is meant."""
    if device not in ("auto", "cuda", "cpu"):
        raise EvaluationError(f"--device must be auto, cuda or cpu, got {device!r}")
    if gpus and device == "cpu":
        indices = ",".join(map(str, gpus))
        raise EvaluationError(f"--gpus {indices} and --device cpu exclude each other: leave one out")
    if device != "auto":
        return device
    return "cuda" if gpus or engine != "local" or visible_gpus() else "cpu"


def made_for_gpus(sources: Iterable[str]) -> Counter[str]:
    """Count the kernels that no CPU can run, as far as their sources tell, by what they are written in."""
    return Counter(backend for backend in map(_gpu_backend, sources) if backend)


def _gpu_backend(source: str) -> str:
    for backend in backends_of(source):
        is_cpp = backend in (Backend.LOAD_INLINE, Backend.LOAD) and "__global__" not in source
        if backend is not Backend.TORCH and not is_cpp:
            return backend.value
    return ""


def _local(device: str, gpus: Sequence[int] | None, progress: Progress | None, _: float | None) -> Place:
    require("evaluate", "the engine local")
    from kernel_evaluator.engines.local import LocalEngine

    return Place(engine=LocalEngine(gpus=gpus, progress=progress), gpu=gpu_of(device, gpus))


def _modal(
    device: str, gpus: Sequence[int] | None, progress: Progress | None, max_usd: float | None
) -> Place:
    require("modal", "the engine modal")
    from kernel_evaluator.engines.epoch import MAX_USD
    from kernel_evaluator.engines.modal import ModalEngine
    from modal.config import config
    from modal.exception import Error as ModalError

    if not (config.get("token_id") and config.get("token_secret")):
        raise EvaluationError(
            "modal has no token; run: modal token new, or set MODAL_TOKEN_ID and MODAL_TOKEN_SECRET"
        )
    if device != "cuda" or gpus is not None:
        raise EvaluationError("the engine modal chooses its own GPUs; leave --device and --gpus out")
    engine = ModalEngine(progress=progress, max_usd=MAX_USD if max_usd is None else max_usd)
    return Place(engine=_Excused(engine, ModalError, "modal: "), gpu="H100")


def _ray(device: str, gpus: Sequence[int] | None, progress: Progress | None, _: float | None) -> Place:
    require("ray", "the engine ray")
    from kernel_evaluator.engines.ray.engine import ClusterError, open_engine

    if gpus is not None:
        raise EvaluationError("the engine ray finds the cluster's GPUs; leave --gpus out (docs/cluster.md)")
    handler = signal.getsignal(signal.SIGTERM)
    try:
        engine, gpu = open_engine(device, progress)
    except ClusterError as error:
        raise EvaluationError(str(error)) from error
    finally:
        if signal.getsignal(signal.SIGTERM) is not handler:  # Ray took it: a stop would have another status
            signal.signal(signal.SIGTERM, handler)
    return Place(engine=_Excused(engine, ClusterError), gpu=gpu)


@dataclass(frozen=True)
class _Excused:
    """An engine whose own excuse for not going on is an EvaluationError, at whatever verdict it comes."""

    engine: Engine
    excuse: type[Exception]
    whose: str = ""

    def run(self, jobs: Sequence[Job], settings: Settings) -> Iterator[Verdict]:
        try:
            yield from self.engine.run(jobs, settings)
        except self.excuse as error:
            raise EvaluationError(f"{self.whose}{error}") from error


ENGINES: dict[str, Callable[[str, Sequence[int] | None, Progress | None, float | None], Place]] = {
    "local": _local,
    "modal": _modal,
    "ray": _ray,
}
"""The engines by name: each takes a device (`cuda` or `cpu`), GPU indices, a callback, a cap in dollars."""


def open_place(
    name: str,
    device: str,
    *,
    gpus: Sequence[int] | None = None,
    progress: Progress | None = None,
    max_usd: float | None = None,
) -> Place:
    """Start the engine of that name; raise EvaluationError where there is none or it cannot be had.

    Raises MissingExtraError where what it needs is not installed. An engine that sends a bill stops before
    `max_usd` dollars are spent.
    """
    if name not in ENGINES:
        raise EvaluationError(f"--engine must be one of {', '.join(ENGINES)}, got {name!r}")
    return ENGINES[name](device, gpus, progress, max_usd)
