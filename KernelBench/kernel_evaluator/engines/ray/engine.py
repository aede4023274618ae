"""The engine `ray`, as its driver sees it: devices come and go, and the scheduler decides the rest.

Judges are actors, one a device, on machines whose GPUs are of the board's model. They take all processors of
their machine between them; builds are tasks on the other machines, or the judge's own, before it measures.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import queue
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import ray
from ray.exceptions import RayActorError, RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from kernel_evaluator.building.builder import BuildStatus, Built
from kernel_evaluator.engines.local import build_failure
from kernel_evaluator.engines.ray import remote, scheduler
from kernel_evaluator.engines.ray.nodes import Board, Node, alive_nodes, boards
from kernel_evaluator.engines.ray.scheduler import WINDOW, Event
from kernel_evaluator.engines.wire import RefusedAnswerError, pack_request, read_answer
from kernel_evaluator.labels.sources import recognise
from kernel_evaluator.problems.jobs import Job, Progress, Settings, Verdict
from kernel_evaluator.records.version import evaluator_sha256

MODEL_VARIABLE = "KERNELBENCH_RAY_GPU"
COUNT_VARIABLE = "KERNELBENCH_RAY_GPUS"
POLL_S = 0.5
LOOK_S = 2.0
"""Seconds between two looks at which machines there are."""
DECIDE_S = 40.0
"""Seconds after which a judge is lost alone, if its machine was not found to be lost too by then."""
START_TRIES = 3
"""So often a device may fail to get ready before it is left alone."""


class ClusterError(Exception):
    """The cluster cannot be used. The message says why and what to do."""


class RayEngine:
    """Judges on the devices of a Ray cluster that are of the board's model, at most `most` of them."""

    def __init__(self, board: Board, *, most: int = 0, progress: Progress | None = None) -> None:
        self._board = board
        self._most = most
        self._progress: Progress = progress or (lambda name, facts: None)

    def run(self, jobs: Iterable[Job], settings: Settings) -> Iterator[Verdict]:
        """Judge every job, from a list or a stream; verdicts come as they are reached."""
        feed = _Stream(jobs)
        cluster = _RayCluster(self._board, settings, self._most, self._progress)
        try:
            yield from scheduler.Scheduler(cluster).run(feed)
        finally:
            cluster.close()


class _Stream:
    """Takes jobs out of whatever gives them, in a thread of its own, which may wait for them."""

    def __init__(self, jobs: Iterable[Job]) -> None:
        self._came: queue.Queue[tuple[Job, bool]] = queue.Queue()
        self._ended = threading.Event()
        self._fault: BaseException | None = None
        thread = threading.Thread(target=self._read, args=(jobs,), daemon=True)
        thread.start()
        if isinstance(jobs, Sequence):
            thread.join()

    @property
    def is_over(self) -> bool:
        return self._ended.is_set() and self._came.empty()

    def take(self) -> list[tuple[Job, bool]]:
        if self._fault is not None:
            raise self._fault
        found = []
        with suppress(queue.Empty):
            while True:
                found.append(self._came.get_nowait())
        return found

    def _read(self, jobs: Iterable[Job]) -> None:
        try:
            for job in jobs:
                self._came.put((job, recognise(job.source).is_built_ahead))
        except Exception as error:  # noqa: BLE001 (raised again where jobs are taken)
            self._fault = error
        self._ended.set()


@dataclasses.dataclass
class _Actor:
    """A judge, from its start on: where it is, and whether it is ready."""

    handle: Any
    node: str
    is_ready: bool = False


class _RayCluster:
    """What the scheduler knows of the cluster, and the calls that it makes."""

    def __init__(self, board: Board, settings: Settings, most: int, progress: Progress) -> None:
        self._board, self._settings, self._most, self._progress = board, settings, most, progress
        self._actor_class = ray.remote(remote.Judge)
        self._build_task = ray.remote(remote.build)
        self._actors: dict[str, _Actor] = {}
        self._failed_starts: dict[str, int] = {}
        self._dying: dict[str, float] = {}
        """Judges that are lost, and when it is decided that their machine is not."""
        self._nodes: dict[str, Node] = {}
        self._calls: dict[Any, tuple[str, str, int]] = {}
        """What is waited for: its kind, its judge or machine, its task."""
        self._jobs: dict[int, Job] = {}
        self._files: dict[int, Any] = {}
        self._to_build: list[int] = []
        self._arch = ""
        self._events: list[Event] = []
        self._looked = 0.0
        self._count = 0
        self._look()
        board.demand(most)

    @property
    def can_build(self) -> bool:
        return any(node.builds for node in self._nodes.values())

    def build(self, task: int, job: Job) -> None:
        self._jobs[task] = job
        self._to_build.append(task)

    def judge(self, judge: str, task: int, job: Job, build: object | None) -> None:
        self._jobs[task] = job
        request = pack_request([job], self._settings)
        ref = self._actors[judge].handle.judge.remote(request, build)
        self._calls[ref] = ("judge", judge, task)

    def poll(self) -> list[Event]:
        if time.monotonic() - self._looked > LOOK_S:
            self._look()
        self._start_builds()
        if self._calls:
            done, _ = ray.wait(list(self._calls), num_returns=1, timeout=POLL_S, fetch_local=False)
            more, _ = ray.wait(list(self._calls), num_returns=len(self._calls), timeout=0, fetch_local=False)
            for ref in {*done, *more}:
                if ref in self._calls:  # else it was a call to a judge that another call found lost
                    self._take(ref, *self._calls.pop(ref))
        else:
            time.sleep(POLL_S)
        events, self._events = self._events, []
        return events

    def close(self) -> None:
        """End what still runs in the cluster for us."""
        for ref, (kind, _, _) in self._calls.items():
            if kind == "build":
                with suppress(RayError):
                    ray.cancel(ref, force=True)
        for actor in self._actors.values():
            with suppress(RayError):
                ray.kill(actor.handle)
        self._board.demand(0)

    def _look(self) -> None:
        """See which machines there are: judges on new ones, and what was on those that are gone is lost."""
        self._looked = time.monotonic()
        self._nodes = {node.id: node for node in alive_nodes(self._board, self._settings.device)}
        for name, until in list(self._dying.items()):
            with_node = self._actors[name].node not in self._nodes
            if with_node or time.monotonic() > until:
                del self._dying[name], self._actors[name]
                self._events.append(scheduler.Lost(judge=name, with_node=with_node))
        for name, actor in self._actors.items():
            if actor.node not in self._nodes and name not in self._dying:
                self._dying[name] = 0.0
        for node in self._nodes.values():
            there = sum(actor.node == node.id for actor in self._actors.values())
            for _ in range(there, node.devices):
                if self._failed_starts.get(node.id, 0) < START_TRIES and self._has_room():
                    self._start_judge(node)

    def _has_room(self) -> bool:
        return not self._most or len(self._actors) < self._most

    def _start_judge(self, node: Node) -> None:
        self._count += 1
        name = f"judge-{self._count}"
        handle = self._actor_class.options(
            num_cpus=node.cores_a_device,
            num_gpus=1 if self._settings.device == "cuda" else 0,
            max_restarts=0,
            max_concurrency=WINDOW + 2,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node.id, soft=False),
        ).remote(self._settings, node.id)
        self._actors[name] = _Actor(handle=handle, node=node.id)
        self._calls[handle.start.remote()] = ("start", name, -1)

    def _start_builds(self) -> None:
        """Send builds to machines with a free processor."""
        if not self._arch and self._settings.device == "cuda":
            return  # nobody has said yet for what is built
        busy: dict[str, int] = {}
        for kind, where, _ in self._calls.values():
            if kind == "build":
                busy[where] = busy.get(where, 0) + 1
        while self._to_build:
            free = [node for node in self._nodes.values() if busy.get(node.id, 0) < node.builds]
            if not free:
                if not self.can_build:  # they are gone: judges build for themselves
                    self._events += [scheduler.Built(task=task) for task in self._to_build]
                    self._to_build.clear()
                return
            task = self._to_build.pop(0)
            node = min(free, key=lambda each: busy.get(each.id, 0) / each.builds)
            busy[node.id] = busy.get(node.id, 0) + 1
            told, files = self._build_task.options(
                num_cpus=1,
                num_returns=2,
                max_retries=1,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node.id, soft=False),
            ).remote(pack_request([self._jobs[task]], self._settings), self._arch)
            self._files[task] = files
            self._calls[told] = ("build", node.id, task)

    def _take(self, ref: Any, kind: str, whose: str, task: int) -> None:
        """Take what came of a call. A judge's own errors are faults of ours: it is lost, not the kernel."""
        try:
            answer = ray.get(ref)
        except RayActorError:
            self._lose(whose)
        except RayError as error:
            if kind == "build":
                del self._files[task]
                self._events.append(scheduler.Built(task=task))
            else:
                self._progress("trouble", {"judge": whose, "said": str(error).strip()[-300:]})
                self._lose(whose)
        else:
            if kind == "start":
                self._note_start(whose, answer)
            elif kind == "build":
                self._note_build(task, answer)
            else:
                self._note_answer(whose, task, answer)

    def _note_start(self, name: str, said: dict[str, Any]) -> None:
        if said["evaluator"] != evaluator_sha256():
            raise ClusterError(
                f"a machine of the cluster has another evaluator ({said['evaluator'][:12]}, here it is "
                f"{evaluator_sha256()[:12]}): install the same version on all machines"
            )
        if name not in self._actors or name in self._dying:
            return
        self._arch = self._arch or str(said["arch"])
        self._actors[name].is_ready = True
        self._events.append(scheduler.Joined(judge=name))
        self._progress("judges", {"ready": sum(actor.is_ready for actor in self._actors.values())})

    def _note_build(self, task: int, told: dict[str, Any]) -> None:
        job, files = self._jobs[task], self._files.pop(task)
        built = Built(**{**told, "status": BuildStatus(told["status"])})
        if built.status is BuildStatus.FAILED:
            del self._jobs[task]
            self._events.append(scheduler.Built(task=task, verdict=build_failure(job, built)))
        elif built.status is BuildStatus.BUILT:
            self._progress("built", {"key": str(job.key), "cpu_seconds": built.cpu_seconds})
            self._events.append(scheduler.Built(task=task, build=files))
        else:
            self._events.append(scheduler.Built(task=task))

    def _note_answer(self, name: str, task: int, text: str) -> None:
        job = self._jobs[task]
        try:
            [verdict] = read_answer(text, [job], self._gpu_of(text)).verdicts
        except (RefusedAnswerError, LookupError, ValueError) as error:
            self._progress("trouble", {"judge": name, "said": str(error)[:300]})
            self._lose(name)
            return
        del self._jobs[task]
        self._events.append(scheduler.Judged(judge=name, task=task, verdict=verdict))

    def _gpu_of(self, text: str) -> str:
        """The model that an answer must name: the board's, or none where no device was needed."""
        said = json.loads(text)["verdicts"][0]["environment"]["gpu"]
        return self._board.gpu if said else ""

    def _lose(self, name: str) -> None:
        """End a judge that does not answer; whether its machine is lost too is seen later."""
        actor = self._actors.get(name)
        if actor is None or name in self._dying:
            return
        with suppress(RayError):
            ray.kill(actor.handle)
        if not actor.is_ready:
            self._failed_starts[actor.node] = self._failed_starts.get(actor.node, 0) + 1
        self._dying[name] = time.monotonic() + DECIDE_S
        self._calls = {ref: call for ref, call in self._calls.items() if call[1] != name}


def connect(address: str = "auto") -> None:
    """Join the cluster, unless this process is part of one; raise ClusterError where there is none."""
    if ray.is_initialized():
        return
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError, RayError) as error:
        raise ClusterError(
            f"no Ray cluster can be joined ({str(error).strip().splitlines()[0]}); start one with ray start, "
            "or name one by RAY_ADDRESS (docs/cluster.md)"
        ) from error


def open_engine(device: str, progress: Progress | None = None) -> tuple[RayEngine, str]:
    """Join the cluster and settle on its devices; give the engine and the board's GPU model.

    `RAY_ADDRESS` names the cluster, `KERNELBENCH_RAY_GPU` the model where there are several, and
    `KERNELBENCH_RAY_GPUS` how many devices are used at most. Raises ClusterError.
    """
    connect()
    given = os.environ.get(COUNT_VARIABLE, "0")
    if not given.isdecimal():
        raise ClusterError(f"{COUNT_VARIABLE} must be a number of devices, got {given!r}")
    board = Board(gpu="CPU") if device == "cpu" else _board(os.environ.get(MODEL_VARIABLE, ""))
    return RayEngine(board, most=int(given), progress=progress), board.gpu


def _board(wanted: str) -> Board:
    found = boards()
    models = sorted({model for model, _ in found})
    if not wanted and len(models) != 1:
        there = f"of models {', '.join(models)}" if models else "at all yet"
        raise ClusterError(f"the cluster has GPUs {there}: name one, as in {MODEL_VARIABLE}=H100")
    gpu = wanted or models[0]
    kinds = Counter({kind: count for kind, count in found.items() if kind[0] == gpu})
    [(kind, _)] = kinds.most_common(1) or [((gpu, 0), 0)]
    return Board(gpu=gpu, memory=kind[1])
