"""The oracle: one a GPU, trusted, persistent. Judges one job after the other.

It owns problems, seeds, expected outputs, tolerances, clock and verdict, and never imports a submission.
"""

from __future__ import annotations

import gc
import logging
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from kernel_evaluator.candidate import memory
from kernel_evaluator.candidate.frames import Op
from kernel_evaluator.candidate.processes import RunFailed, RunnerProcess, Zygote
from kernel_evaluator.judging.judge import judge
from kernel_evaluator.labels.sources import COMPILER
from kernel_evaluator.numerics import compare
from kernel_evaluator.problems.inputs import PRECISIONS
from kernel_evaluator.problems.jobs import STANDING_BY, Job, Settings, unmeasured_row
from kernel_evaluator.problems.problem_set import Problem
from kernel_evaluator.records.rows import Failure, Row, Status
from kernel_evaluator.records.version import evaluator_sha256
from kernel_evaluator.stand.set_up import set_up
from kernel_evaluator.stand.sides import ReferenceFailed
from kernel_evaluator.stand.stand import Stand
from kernel_evaluator.upstream import compat

WARM_S = 60.0
WARM_TRIES = 2
TRIES = 2
RETIRE_AT_ONCE_GB = 20.0
REFERENCE_PROBLEMS = 20
"""The references' process is replaced after so many problems: as it ages it launches 1 to 2 % more slowly."""

_log = logging.getLogger(__name__)


class FailedBeside(ReferenceFailed):
    """The reference did not run while a candidate was there; `lacks_room` is what the stand says of that."""

    def __init__(self, message: str, lacks_room: str) -> None:
        super().__init__(message)
        self.lacks_room = lacks_room


@dataclass(frozen=True, kw_only=True)
class Needs:
    """What a kernel finds when its process starts: what was built for it, torch's compiler at work."""

    cache: Path | None = None
    compiler: bool = False

    @classmethod
    def of(cls, source: str, cache: Path | None) -> Needs:
        """What a kernel needs, judged by its source."""
        return cls(cache=cache, compiler=COMPILER in source)


class Standby:
    """A process that is forked and opens the device ahead of its turn; nothing submitted runs in it yet."""

    def __init__(self, zygote: Zygote, *, confined: bool, needs: Needs | None = None) -> None:
        self._zygote, self._confined, self.needs = zygote, confined, needs or Needs()
        self._process = self._fork()
        self._is_warm = False

    def await_warm(self) -> RunnerProcess:
        """Wait until the device is open; a process that does not open it is replaced.

        Raises ReferenceFailed where the replacement does not either; one more stands by then.
        """
        said = ""
        for _ in range(WARM_TRIES):
            if self._is_warm:
                break
            try:
                self._process.receive(WARM_S)
                self._is_warm = True
            except RunFailed as error:
                _log.warning("a process did not open the device: %s", error)
                said = str(error).partition("\n")[0]
                self._process.end()
                self._process = self._fork()
        if not self._is_warm:
            allowed = f"memory_gb allows each {self._zygote.home.memory_bytes / 2**30:.3g} GiB of host memory"
            raise ReferenceFailed(f"no process opened the device in {WARM_TRIES} tries: {said} ({allowed})")
        return self._process

    def paused(self) -> AbstractContextManager[None]:
        """Stop the process for a while, also in the middle of opening the device."""
        return self._process.paused()

    def end(self) -> None:
        """End a process that is not needed after all."""
        self._process.end()

    def _fork(self) -> RunnerProcess:
        process = self._zygote.fork(confined=self._confined, cache=self.needs.cache)
        process.send(Op.WARM, compiler=self.needs.compiler)
        return process


class Oracle:
    """What is kept from job to job: the zygote, the references' process and stand, and the next candidates'.

    A candidate's process judges one kernel. The references' is kept for some problems: to open a device costs
    as much as judging. It forgets all before it loads the next, and timing begins with no memory cached.
    """

    def __init__(self, settings: Settings, zygote: Zygote) -> None:
        self.settings = settings
        self.zygote = zygote
        self.fallback = settings.device == "cuda" and not handles_can_be_shared()
        self._stand: Stand | None = None
        self._candidates: deque[Standby] = deque()
        self._reference: Standby | None = None
        self._next_reference: Standby | None = None
        self._problems = 0
        self._inexact: set[str] = set()
        """Problems whose references want more memory in float64 than there is."""
        self._endings: list[threading.Thread] = []
        self.walls: tuple[str, ...] = ()
        if settings.device == "cuda":
            self._next_reference = Standby(zygote, confined=False)  # which opens the device meanwhile
            _load_what_stays(settings.precision)

    def judge(self, job: Job, needs: Needs, upcoming: Sequence[Needs] = ()) -> Row:
        """Judge one job; a fault of the reference's is an infra_error row.

        `upcoming` is what the kernels after this one will need, in turn. Where the reference fails, all
        is tried once more with new processes; where it fails beside the candidate again and runs without it,
        that is the candidate's doing, unless we left it too little memory.
        """
        for _ in range(TRIES):
            try:
                return self._judge_once(job, needs, upcoming)
            except ReferenceFailed as failed:
                error = failed
                _log.warning("%s: %s", job.key, str(error)[:500])
        status, message = Status.INFRA_ERROR, str(error)
        if isinstance(error, FailedBeside) and error.lacks_room:
            message = f"{error.lacks_room}: {message}"
        elif isinstance(error, FailedBeside) and self._reference_runs(job.problem):
            status = Status.OUT_OF_MEMORY
            message = f"with this kernel on the device the reference does not run: {message}"
        return unmeasured_row(job, status, Failure(name="ReferenceFailed", message=message[:8000]))

    def _judge_once(self, job: Job, needs: Needs, upcoming: Sequence[Needs]) -> Row:
        process: RunnerProcess | None = None
        try:
            started = time.monotonic()
            self._prepare_compiler(needs)
            stand = self._prepare_stand(job.problem)
            spent_s = time.monotonic() - started
            _log.debug(
                "%s stand %.3f s, %d calls, %.5f ms alone", job.key, spent_s, stand.calls, stand.alone_ms
            )
            process = self._take_candidate(needs)
            self._survey(stand)
            self._prepare_candidates(upcoming or [Needs()])
            self._prepare_reference()
            self.walls = self.walls or process.walls()
            rules = compat.hear if self.settings.profile == "compat" else None
            row = judge(stand, job, process, self._quiet, rules)
            self._retire(process, stand.device.used_gb() or 0.0)
            return row
        except (ReferenceFailed, RunFailed, torch.cuda.OutOfMemoryError) as error:
            said = str(error)
        # Only now have those tensors gone that the error's frames held.
        if process is None:
            self._drop_stand()
            raise ReferenceFailed(said)
        process.end()
        lacks_room = self._stand.lacks_room() if self._stand is not None else ""
        if self._stand is not None and self._stand.rounding.was_lost:
            self._inexact.add(job.problem.sha256)
        self._drop_stand()
        raise FailedBeside(said, lacks_room)

    def _reference_runs(self, problem: Problem) -> bool:
        try:
            self._prepare_stand(problem)
        except (ReferenceFailed, torch.cuda.OutOfMemoryError):
            self._drop_stand()
            return False
        return True

    def close(self) -> None:
        """End what is kept."""
        self._join_endings()
        self._drop_candidates()
        self._drop_stand()
        if self._next_reference is not None:
            self._next_reference.end()

    def _prepare_compiler(self, needs: Needs) -> None:
        """Load torch's compiler where all later processes start: in each of them it would take seconds."""
        if needs.compiler and not self.zygote.has_compiler:
            self.zygote.load_compiler()
            self._drop_candidates()

    def _prepare_candidates(self, upcoming: Sequence[Needs]) -> None:
        """Have processes stand by for the next kernels, in their order."""
        wanted = list(upcoming[:STANDING_BY])
        if [each.needs for each in self._candidates] != wanted[: len(self._candidates)]:
            self._drop_candidates()
        confined = "isolation" not in self.settings.switched_off
        for needs in wanted[len(self._candidates) :]:
            self._candidates.append(Standby(self.zygote, confined=confined, needs=needs))

    def _drop_candidates(self) -> None:
        while self._candidates:
            self._candidates.pop().end()

    def _take_candidate(self, needs: Needs) -> RunnerProcess:
        if not self._candidates or self._candidates[0].needs != needs:
            self._drop_candidates()
            self._prepare_candidates([needs])
        process = self._candidates[0].await_warm()
        self._candidates.popleft()
        return process

    def _survey(self, stand: Stand) -> None:
        """Let a new stand see what it finds on the device while everything else of ours is off it."""
        if stand.device.is_alone is not None:
            return
        with self._quiet():
            stand.survey()
        if not stand.device.is_alone:
            _log.warning("somebody else uses the device: lateness is judged less strictly")

    def _retire(self, process: RunnerProcess, device_memory_gb: float) -> None:
        """End a process: beside the preparations for the next, unless it holds memory that those need."""
        ending = threading.Thread(target=process.end)
        ending.start()
        self._endings.append(ending)
        if device_memory_gb > RETIRE_AT_ONCE_GB:
            self._join_endings()

    @contextmanager
    def _quiet(self) -> Iterator[None]:
        """Keep everything else of ours off the device: the last processes are gone, the next are stopped."""
        self._join_endings()
        with ExitStack() as stack:
            for standby in [*self._candidates, self._next_reference]:
                if standby is not None:
                    stack.enter_context(standby.paused())
            yield

    def _join_endings(self) -> None:
        while self._endings:
            self._endings.pop().join()

    def _prepare_stand(self, problem: Problem) -> Stand:
        if self._stand is not None and self._stand.problem.sha256 == problem.sha256:
            return self._stand
        if self._stand is not None:
            stand, self._stand = self._stand, None
            stand.close()
        reference = self._take_reference()
        may_be_exact = problem.sha256 not in self._inexact
        self._stand = set_up(
            problem, self.settings, reference, fallback=self.fallback, may_be_exact=may_be_exact
        )
        return self._stand

    def _take_reference(self) -> RunnerProcess:
        if self._reference is not None and self._problems >= REFERENCE_PROBLEMS:
            self._reference.end()
            self._reference = None
        if self._reference is None:
            self._reference, self._next_reference = self._next_reference, None
            self._reference = self._reference or Standby(self.zygote, confined=False)
            self._problems = 0
        self._problems += 1
        return self._reference.await_warm()

    def _prepare_reference(self) -> None:
        """Have a process stand by to replace the references', as soon as that is the next problem but one."""
        if self._problems >= REFERENCE_PROBLEMS - 1 and self._next_reference is None:
            self._next_reference = Standby(self.zygote, confined=False)

    def _drop_stand(self) -> None:
        """Close the stand and end the reference's process: what went wrong may have left something there."""
        if self._stand is not None:
            stand, self._stand = self._stand, None
            stand.close()
        if self._reference is not None:
            self._reference.end()
            self._reference = None
        if self.settings.device == "cuda":
            gc.collect()
            torch.cuda.empty_cache()


def _load_what_stays(precision: str) -> None:
    """Do now what is done once for all kernels: it takes seconds, which the first would pay for.

    Torch imports its compiler's symbols for shapes without data, and Triton compiles what compares outputs.
    """
    evaluator_sha256()
    torch.empty(1, device="meta").add(1)
    for dtype in {torch.float32, PRECISIONS[precision]}:
        output = torch.ones(1 << 12, dtype=dtype, device="cuda")
        compare.compare(output, output, compare.relative_tolerance(output, compare.TOLERANCES[precision]))


def handles_can_be_shared() -> bool:
    """Whether this platform exports CUDA memory as file descriptors."""
    try:
        memory.create(1 << 20, "cuda").close()
    except memory.HandlesRefused:
        return False
    return True
