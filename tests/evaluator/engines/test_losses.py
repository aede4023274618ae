"""A simulation of what a platform can lose, in a time of its own: whatever dies when, the cap on dollars holds.

The engine, its threads and its meter are real. The platform is not: it charges every second of every container
at the highest price until the call is over or the app has ended, which takes containers ENDING_S. A call that
the app's end cuts off brings no answer, and none begins after it.
"""

import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from kernel_evaluator.engines import epoch, modal, modal_app
from kernel_evaluator.engines.modal import ModalEngine, Remote
from kernel_evaluator.engines.modal_app import JUDGE_TIMEOUT_S
from kernel_evaluator.engines.wire import Answer, pack_answer, read_request
from kernel_evaluator.problems.jobs import Job, Settings, Verdict
from kernel_evaluator.problems.problem_set import ProblemSet
from kernel_evaluator.records.keys import KernelKey
from kernel_evaluator.records.rows import Environment, Failure, Row, Status
from kernel_evaluator.records.version import evaluator_sha256

ROOT = Path(__file__).resolve().parents[3]
H100 = Environment(device="NVIDIA H100 80GB HBM3", gpu="H100")
PRICE = epoch.price_of("modal", "H100")
PROBLEM = ProblemSet().load(1, 19)
JOBS = [
    Job(
        key=KernelKey(level, i),
        source=f"class ModelNew: pass  # {level} {i}" + ("\n# cpp_extension" if i % 3 == 0 else ""),
        problem=PROBLEM,
    )
    for level, most in ((1, 100), (2, 100), (3, 50))
    for i in range(1, most + 1)
]


@dataclass
class Call:
    """One container at work: when it began, when it will be over, and what a second of it costs."""

    began: float
    ends: float
    usd_per_second: float
    is_cut: bool = False
    over: threading.Event = field(default_factory=threading.Event)


class Platform:
    """Containers in virtual time. `fate` gives each judging call its seconds and whether an answer comes."""

    def __init__(self, fate, seed: int) -> None:
        self.fate, self.random = fate, random.Random(seed)
        self.now = 0.0
        self.lock = threading.Lock()
        self.open: list[Call] = []
        self.charged = 0.0
        self.has_ended = False
        self.answered: set[KernelKey] = set()

    @contextmanager
    def remote(self) -> Iterator[Remote]:
        try:
            yield Remote(build=self.build, judge=self.judge)
        finally:
            with self.lock:
                self.has_ended = True
            self.now += epoch.ENDING_S
            for call in list(self.open):
                self._end(call, min(self.now, call.ends))

    def build(self, request: str) -> str:
        self._run(self.random.uniform(5, 200), epoch.building_usd_per_second(PRICE))
        return "{}"

    def judge(self, request: str) -> str:
        asked, _ = read_request(request)
        with self.lock:
            seconds, answers = self.fate(self.random, len(asked))
        self._run(seconds, epoch.judging_usd_per_second(PRICE))
        if not answers:
            raise RuntimeError("the container was lost")
        with self.lock:
            self.answered |= {job.key for job in asked}
        return pack_answer(Answer(verdicts=tuple(map(failed, asked)), seconds=0.0))

    def wait(self, futures: set[Future], timeout: float, return_when: str) -> tuple[set[Future], set[Future]]:
        """As the real one, in virtual time, which goes on to the next event once the threads rest."""
        until = self.now + timeout
        while True:
            before = len(self.open)
            time.sleep(0.001)
            done = {future for future in futures if future.done()}
            if done or self.now >= until:
                return done, futures - done
            if before == len(self.open):
                self.now = min([until, *(call.ends for call in list(self.open))])
                for call in [call for call in list(self.open) if call.ends <= self.now]:
                    self._end(call, call.ends)

    def _run(self, seconds: float, usd_per_second: float) -> None:
        with self.lock:
            if self.has_ended:
                raise RuntimeError("the app has ended")
            call = Call(self.now, self.now + seconds, usd_per_second)
            self.open.append(call)
        call.over.wait()
        if call.is_cut:
            raise RuntimeError("the app has ended")

    def _end(self, call: Call, when: float) -> None:
        with self.lock:
            if call in self.open:
                self.open.remove(call)
                call.is_cut = when < call.ends
                self.charged += max(0.0, when - call.began) * call.usd_per_second
        call.over.set()


def failed(job: Job) -> Verdict:
    row = Row(
        key=job.key,
        status=Status.RUNTIME_ERROR,
        kernel_sha256=job.kernel_sha256,
        problem_sha256=PROBLEM.sha256,
        evaluator_sha256=evaluator_sha256(),
        failure=Failure(name="a", message="b"),
    )
    return Verdict(row=row, environment=H100)


FATES = {
    "every call dies at its limit": lambda dice, n: (JUDGE_TIMEOUT_S, False),
    "every call dies at once": lambda dice, n: (1.0, False),
    "every third call dies, at any time": lambda dice, n: (
        dice.uniform(1, JUDGE_TIMEOUT_S),
        dice.random() > 1 / 3,
    ),
    "every kernel takes as long as the slowest recorded": lambda dice, n: (30 + n * 24.2, True),
    "containers that judge eight live, alone they die": lambda dice, n: (
        n * 10.0 if n > 1 else 3600.0,
        n > 1,
    ),
}


@pytest.mark.parametrize("fate", FATES)
@pytest.mark.parametrize("cap", [0.9, 10.0, 60.0])
def test_whatever_dies_when_the_cap_holds_and_what_was_judged_is_kept(
    monkeypatch: pytest.MonkeyPatch, fate: str, cap: float
) -> None:
    platform = Platform(FATES[fate], seed=3)
    rows, bill = judged(platform, monkeypatch, cap)

    assert platform.charged <= cap
    assert platform.charged <= bill["usd"] + epoch.most_usd_between_looks(PRICE)
    kept = {key for key, row in rows.items() if row.status is Status.RUNTIME_ERROR}
    lost_at_the_end = platform.answered - kept
    assert kept <= platform.answered
    assert len(lost_at_the_end) <= epoch.MAX_GPUS * epoch.KERNELS_PER_CALL
    assert {job.key for job in JOBS} == set(rows)


@pytest.mark.parametrize("after", [1, 40, 100])
def test_an_evaluation_that_is_broken_off_ends_its_containers(
    monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    platform = Platform(FATES["every kernel takes as long as the slowest recorded"], seed=4)
    rows, bill = judged(platform, monkeypatch, 60.0, after)

    assert after == len(rows)
    assert platform.charged <= min(60.0, bill["usd"] + epoch.most_usd_between_looks(PRICE))


def test_maintainers_are_told_the_most_that_losses_can_cost() -> None:
    """Between two looks; and where our own process dies, with each call's container started twice, to its limit."""
    told = " ".join((ROOT / "docs/maintainers.md").read_text("utf-8").split())
    a_call = (1 + modal_app.RETRIES) * (modal_app.START_TIMEOUT_S + JUDGE_TIMEOUT_S)
    all_calls = epoch.MAX_GPUS * a_call * epoch.judging_usd_per_second(PRICE)

    assert f"${epoch.most_usd_between_looks(PRICE):.2f} before its cap" in told
    assert f"the limits of the ten containers: ${all_calls:.0f}." in told


def judged(
    platform: Platform, monkeypatch: pytest.MonkeyPatch, cap: float, after: int = 10**6
) -> tuple[dict[KernelKey, Row], dict]:
    """Run the engine on that platform until it ends, or until so many rows were taken."""
    monkeypatch.setattr(modal, "_remote", platform.remote)
    monkeypatch.setattr(modal, "wait", platform.wait)
    said: list[tuple[str, dict]] = []
    engine = ModalEngine(
        progress=lambda name, facts: said.append((name, facts)), max_usd=cap, clock=lambda: platform.now
    )
    rows: dict[KernelKey, Row] = {}
    with closing(engine.run(JOBS, Settings())) as verdicts, suppress(StopIteration):
        while len(rows) < after:
            verdict = next(verdicts)
            rows[verdict.row.key] = verdict.row
    for thread in [thread for thread in threading.enumerate() if thread.name.startswith("modal")]:
        thread.join(30)
        assert not thread.is_alive(), "what waits for a call for ever keeps the evaluation from ending"
    return rows, said[-1][1]
