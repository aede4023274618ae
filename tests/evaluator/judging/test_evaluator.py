"""The evaluator on a CPU, with its real processes: speedups, time limits, lost oracles, kernels beside kernels."""

import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from evaluating import (
    RIGHT,
    SOURCE,
    command,
    is_late,
    is_without_verdict,
    jobs_of,
    judge,
    kernel,
    own_processes,
)
from kernel_evaluator import oracle
from kernel_evaluator.candidate.frames import Op
from kernel_evaluator.candidate.processes import Home, Zygote
from kernel_evaluator.engines.local import hangs_on_time
from kernel_evaluator.problems.jobs import Job, Settings
from kernel_evaluator.problems.problem_set import Problem
from kernel_evaluator.records.keys import KernelKey
from kernel_evaluator.records.rows import Failure, Status
from kernel_evaluator.walls import sandbox

pytestmark = pytest.mark.timeout(900)  # a busy machine judges the kernels of a whole file in minutes

KEPT_BUFFER = kernel(
    "self.kept.copy_(self.right(x))", "return self.kept", init="self.kept = torch.empty(16, 64)"
)
STALE = kernel(
    "self.kept = self.right(x) if self.kept is None else self.kept",
    "return self.kept",
    init="self.kept = None",
)
TWICE = kernel("for _ in range(40): self.right(x)")


@pytest.fixture(scope="module")
def timed(measured):
    names = ("right", "kept buffer", "stale", "slow", "dies later", "right again")
    dies = kernel(
        "Later.calls += 1", "if Later.calls > 40: os._exit(3)", head="class Later:\n    calls = 0\n"
    )
    sources = (RIGHT, KEPT_BUFFER, STALE, TWICE, dies, RIGHT)
    rows = measured(jobs_of(*sources))  # who was judged again comes last
    return {name: rows[at] for at, name in enumerate(names)}


def test_a_right_kernel_has_a_speedup_inside_its_interval(timed):
    for row in (timed["right"], timed["right again"]):
        low, high = row.speedup_ci95
        assert (row.status, row.trials_passed, row.trials_asked) == ("correct", 5, 5)
        assert 0 < low <= row.speedup <= high
        assert row.runtime_ms.min <= row.runtime_ms.median <= row.runtime_ms.max
        assert row.runtime_ms.n == row.reference_ms.n >= 6
        assert row.second_clock_ms > 0


def test_a_slow_kernel_is_timed_as_often_as_its_interval_needs(measured):
    slowly = "    def forward(self, x):\n        time.sleep(0.36)\n"
    source = SOURCE.replace("import torch\n", "import time\nimport torch\n", 1)
    source = source.replace("    def forward(self, x):\n", slowly)
    problem = Problem(level=1, problem_id=1, name="1_Slow", source=source)
    row = measured(jobs_of(kernel("time.sleep(0.36)"), problem=problem))[0]
    assert (row.status, row.runtime_ms.n) == ("correct", 6)


def test_a_kernel_that_does_forty_times_the_work_is_slower(timed):
    row = timed["slow"]
    assert row.status in ("correct", "quarantined") or is_without_verdict(row)
    assert row.speedup_ci95 is None or row.speedup_ci95[1] < 0.5


def test_an_output_buffer_that_is_used_again_is_seen_in_the_timed_runs(timed):
    assert (timed["kept buffer"].status, timed["kept buffer"].failure.name) == (
        "rejected",
        "WrongTimedOutput",
    )
    assert timed["kept buffer"].speedup is None


def test_an_answer_that_was_kept_is_a_mismatch(timed):
    assert (timed["stale"].status, timed["stale"].speedup) == ("mismatch", None)


def test_death_in_a_timed_batch_is_a_runtime_error(timed):
    row = timed["dies later"]
    assert (row.status, row.failure.name, row.trials_passed) == ("runtime_error", "ProcessDied", 5)
    assert "exit code 3" in row.failure.message


def test_a_claim_that_no_batch_can_take_is_refused_and_the_next_kernel_is_judged(measured):
    claims = kernel(
        head="from kernel_evaluator.candidate import runner\nrunner.batch_clock = lambda device, run: (run(), 1.7e308)"
    )
    rows = measured(jobs_of(claims, RIGHT))
    assert (rows[0].status, rows[0].failure.name) == ("rejected", "ProtocolViolation")
    assert rows[1].status == "correct"


LOOKS_AHEAD = """
from kernel_evaluator.candidate.runner import Runner

batch = Runner.batch

def look_ahead(self, **facts):
    has_go, came_before = lambda: self.channel._poll.poll(0), []
    inputs = [x.view(torch.int32) for each in self.sets for x in each]
    known = [x.clone() for x in inputs]
    def look(spin_s):
        end = time.monotonic() + 0.05
        while not has_go() and time.monotonic() < end:
            if not all(map(torch.equal, inputs, known)) and not has_go():
                came_before.append("inputs")
    self.channel.wait_for_request = look
    reply = batch(self, **facts)
    del self.channel.wait_for_request
    assert not came_before and "seed" not in facts, f"before GO came {came_before} and {facts}"
    return reply

frame = sys._getframe()
while "methods" not in frame.f_locals:
    frame = frame.f_back
methods, served = frame.f_locals["methods"], frame.f_locals["self"]
(op,) = (each for each in methods if each.name == "BATCH")
methods[op] = lambda **facts: look_ahead(served, **facts)
"""


def test_neither_inputs_nor_seed_are_known_before_a_batch_begins():
    """The inputs of this problem take milliseconds to write. To look for them takes time, which no clock minds here."""
    large = Problem(level=1, problem_id=1, name="1_Large", source=SOURCE.replace("rows = 16", "rows = 16384"))
    (row,) = judge(jobs_of(kernel(head=LOOKS_AHEAD), problem=large), switched_off=("clocks",)).values()
    assert (row.status, row.failure) == ("correct", None)


def test_a_kernel_that_hangs_is_stopped_and_the_next_is_right():
    endless = kernel("while True: time.sleep(0.1)")
    rows = judge(jobs_of(endless, RIGHT, kernel(head="time.sleep(1000)"), RIGHT), timeout_s=5, measure=False)
    assert [str(row.status) for row in rows.values()] == ["timeout", "correct", "timeout", "correct"]


def test_a_kernel_much_faster_than_its_reference_is_timed_over_more_calls(measured):
    # The second waits as its reference does, 25 times less often: a busy machine draws out each wait alike.
    lazy, often = (
        Problem(
            level=1,
            problem_id=number,
            name=f"{number}_Lazy",
            source="import time\n"
            + SOURCE.replace("        return self.norm", f"{wait}        return self.norm"),
        )
        for number, wait in enumerate(
            ("        time.sleep(0.005)\n", "        for _ in range(25): time.sleep(2e-4)\n"), 1
        )
    )
    counts = kernel("self.calls += 1", "assert self.calls < 600, 'enough'", init="self.calls = 0")
    seldom = jobs_of("", kernel("time.sleep(2e-4)"), problem=often)[1:]
    rows = measured(jobs_of(counts, problem=lazy) + seldom, is_late)
    assert (rows[0].status, rows[0].failure.message.splitlines()[0]) == ("runtime_error", "enough")
    assert rows[1].status == "correct"
    assert rows[1].speedup_ci95[0] > 2


def test_a_kernel_that_only_rounds_otherwise_is_right_whenever_its_rounding_is_weighed(measured):
    """Ill-conditioned, with affine weights: what rounding does is measured in the midst of timing."""
    steep = SOURCE.replace("rows = 16", "rows = 4096").replace("torch.relu(x)", "torch.sin(2000 * x)")
    problem = Problem(level=1, problem_id=1, name="1_Steep", source=steep)
    otherwise = RIGHT.replace("x.clamp(min=0)", "torch.sin(x * 44.72136 * 44.72136)")
    rows = measured(jobs_of(*[otherwise] * 3, problem=problem))
    assert [(row.status, row.failure) for row in rows.values()] == [("correct", None)] * 3


ROUNDING = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(64, features) / 1000)

    def forward(self, x):
        start = torch.full((16, 1), 1e5, dtype=x.dtype)
        total = start
        for row in self.weight:
            total = total + (x * row).sum(dim=1, keepdim=True)
        return torch.cat([total[:8] - start[:8], total[8:]])


def get_inputs():
    return [torch.rand(16, 64)]


def get_init_inputs():
    return [64]
"""


def exactly(source):
    """The kernel that computes what a variant of ROUNDING does in float64, and rounds at the end."""
    kernel_source = source.replace("class Model(", "class ModelNew(").replace(
        "dtype=x.dtype", "dtype=torch.double"
    )
    kernel_source = kernel_source.replace("x * row", "x.double() * row.double()")
    return kernel_source.replace("total[8:]])", "total[8:]]).float()")


def test_an_exact_kernel_is_right_beside_a_reference_that_rounds_where_large_terms_cancel(unmeasured):
    exact = exactly(ROUNDING)
    problem = Problem(level=1, problem_id=1, name="1_Cancel", source=ROUNDING)
    rows = unmeasured(jobs_of(exact, exact, problem=problem))
    assert [(row.status, row.failure) for row in rows.values()] == [("correct", None)] * 2


def test_the_second_output_is_compared_with_its_own_though_the_first_had_its_rounding_weighed(unmeasured):
    both = ROUNDING.replace("total[8:]])", "total[8:]]), x * 2")
    exact = exactly(both)
    problem = Problem(level=1, problem_id=1, name="1_Both", source=both)
    wrong = exact.replace("x * 2", "x * 2.01")
    rows = unmeasured(jobs_of(exact, wrong, problem=problem))
    assert [rows[at].status for at in (0, 1)] == ["correct", "mismatch"]
    assert rows[1].evidence["counter_example"]["output"] == 1


def test_a_kernel_wrong_on_one_kind_of_inputs_is_fragile_whether_tried_before_timing_or_in_it(measured):
    wrong = [
        kernel(f"if {sign}: return self.right(x) * 1.5")
        for sign in ("x.min() < -0.1", "x.max() > 50", "x.max() < 0.5", "x.min() > 0.5")
    ]
    rows = measured(jobs_of(*wrong))
    assert [row.status for row in rows.values()] == ["fragile"] * len(wrong)
    assert all(row.evidence["counter_example"]["distribution"] != "upstream" for row in rows.values())


def test_a_process_says_from_which_core_it_launches_fastest():
    cores = sorted(os.sched_getaffinity(0))
    with Zygote(Home(device="cpu", threads=len(cores), memory_bytes=8 << 30)) as zygote:
        process = zygote.fork(confined=False)
        said = process.ask(Op.PROBE, 60.0, cores=cores, kept=None)
        again = process.ask(Op.PROBE, 60.0, cores=cores, kept=cores[-1])
        assert os.sched_getaffinity(process.pid) == set(cores)
    took = _microseconds(said.text)
    assert sorted(took) == cores
    assert took[said.count] == min(took.values())
    took = _microseconds(again.text)
    assert again.count == cores[-1] or took[again.count] < took[cores[-1]]


GRASPS = """
import os, threading
try:
    os.sched_setaffinity(0, range(os.cpu_count()))
except PermissionError:
    pass
threading.Thread(target=threading.Event().wait, daemon=True).start()
child = os.fork()
if child == 0:
    threading.Event().wait()
ModelNew = None
"""


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one processor core")
def test_a_kernel_has_the_processor_cores_of_its_reference_on_a_cpu_and_no_more():
    with Zygote(Home(device="cpu", threads=1, memory_bytes=8 << 30)) as zygote:
        reference, candidate = zygote.fork(confined=False), zygote.fork(confined=True)
        reference.ask(Op.WARM, 60.0)
        candidate.ask(Op.LOAD, 60.0, source=GRASPS, class_name="ModelNew")
        family = sandbox.descendants(candidate.pid)
        threads = [int(path.name) for pid in family for path in Path(f"/proc/{pid}/task").iterdir()]
        assert (len(family), len(threads)) == (2, 3)
        (core,) = os.sched_getaffinity(reference.pid)
        assert [os.sched_getaffinity(thread) for thread in threads] == [{core}] * 3


def _microseconds(text: str) -> dict[int, float]:
    return {int(core): float(took) for core, took in (pair.split(":") for pair in text.split())}


def test_a_reference_that_fails_is_our_fault_and_another_problem_is_judged_all_the_same(unmeasured):
    broken = Problem(
        level=1,
        problem_id=2,
        name="2_Broken",
        source=SOURCE.replace("torch.relu(x)", "torch.relu(x).nothing"),
    )
    jobs = jobs_of(RIGHT, problem=broken) + jobs_of("", RIGHT)[1:]
    rows = unmeasured(jobs)
    assert (rows[0].status, rows[0].failure.name) == ("infra_error", "ReferenceFailed")
    assert "nothing" in rows[0].failure.message
    assert rows[1].status == "correct"


@pytest.mark.parametrize(
    ("right", "wrong", "why"),
    [
        (
            "return [torch.rand(rows, 64)]",
            "raise ValueError('no such rows')",
            "builtins.ValueError: no such rows",
        ),
        (
            "return [torch.rand(rows, 64)]",
            "return None",
            "builtins.TypeError: 'NoneType' object is not iterable",
        ),
        ("return [64]", "return [missing]", "builtins.NameError: name 'missing' is not defined"),
    ],
)
def test_a_problem_whose_own_code_fails_says_why_in_the_row_and_the_next_is_judged(
    unmeasured, right, wrong, why
):
    broken = Problem(level=1, problem_id=2, name="2_Broken", source=SOURCE.replace(right, wrong))
    rows = unmeasured(jobs_of(RIGHT, problem=broken) + jobs_of("", RIGHT)[1:])
    assert (rows[0].status, rows[0].failure.name) == ("infra_error", "ReferenceFailed")
    assert rows[0].failure.message.splitlines()[0] == f"the problem's own code failed: {why}"
    assert rows[1].status == "correct"


def test_a_problem_that_fails_in_some_draws_says_so_too(unmeasured):
    later = SOURCE.replace(
        "def get_inputs():\n", "draws = []\n\n\ndef get_inputs():\n    draws.append(len(draws))\n"
    )
    later = later.replace("return [torch.rand(", "assert len(draws) < 4\n    return [torch.rand(")
    broken = Problem(level=1, problem_id=3, name="3_Broken", source=later)
    row = unmeasured(jobs_of(RIGHT, problem=broken))[0]
    assert (row.status, row.failure.name) == ("infra_error", "ReferenceFailed")
    assert row.failure.message.startswith("the problem's own code failed: builtins.AssertionError: ")


def test_where_torch_needs_more_memory_than_a_kernel_may_have_the_row_names_the_bound():
    row = judge(jobs_of(RIGHT), memory_gb=0.1, measure=False)[0]
    assert (row.status, row.failure.name) == ("infra_error", "ReferenceFailed")
    assert row.failure.message == (
        "no process opened the device in 2 tries: OutOfMemory: more than 0.1 GiB of host memory "
        "(memory_gb allows each 0.1 GiB of host memory)"
    )


def test_a_compiled_model_is_judged_though_its_process_runs_as_nobody_known(unmeasured):
    head = (
        'import getpass\n\n@torch.compile(backend="aot_eager")\ndef activate(x):\n    return torch.relu(x)\n'
    )
    compiled = kernel("getpass.getuser()", "return self.norm(activate(x))", head=head)
    rows = unmeasured(jobs_of(compiled, RIGHT))
    assert [row.status for row in rows.values()] == ["correct", "correct"], rows[0].failure
    assert (rows[0].elsewhere, rows[1].elsewhere is None) == (None, False)  # it would be compiled anew there


def test_a_lost_oracle_is_replaced_its_job_tried_again_and_then_given_up():
    families: list[set[int]] = []
    others = own_processes()
    killer = threading.Thread(target=_kill_oracles, args=(families, 2, others), daemon=True)
    killer.start()
    rows = judge(jobs_of(kernel("time.sleep(1000)"), RIGHT), measure=False)
    assert len(families) == 2
    assert (rows[0].status, rows[0].failure.name) == ("infra_error", "OracleLost")
    assert rows[1].status == "correct"
    assert own_processes() <= others
    deadline = time.monotonic() + 60
    while left := {pid for family in families for pid in family if "kernel_evaluator" in command(pid)}:
        assert time.monotonic() < deadline, f"{left} outlived their oracle"
        time.sleep(0.1)


def _kill_oracles(families: list[set[int]], count: int, others: set[int]) -> None:
    """Kill the next oracles that this process starts, once they have processes of their own."""
    deadline = time.monotonic() + 200
    while len(families) < count and time.monotonic() < deadline:
        for pid in own_processes() - others:
            family = set(sandbox.descendants(pid))
            if "kernel_evaluator.oracle_process" in command(pid) and len(family) > 3:
                families.append(family)
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def test_the_references_process_is_replaced_after_some_problems(monkeypatch):
    monkeypatch.setattr(oracle, "REFERENCE_PROBLEMS", 2)
    ageing = SOURCE.replace("rows = 16", "torch.age = getattr(torch, 'age', 0) + 1\nrows = 16")
    ageing = ageing.replace("torch.relu(x))", "torch.relu(x)) * torch.age")
    problems = [
        Problem(level=1, problem_id=number, name="1_Ageing", source=f"{ageing}# {number}\n")
        for number in range(1, 6)
    ]
    settings = Settings(profile="ranked", device="cpu", measure=False)
    with Zygote(Home(device="cpu", threads=1, memory_bytes=8 << 30)) as zygote:
        judging = oracle.Oracle(settings, zygote)
        rows = [
            judging.judge(
                Job(key=KernelKey(1, problem.problem_id, 0), source=RIGHT, problem=problem), oracle.Needs()
            )
            for problem in problems
        ]
        judging.close()
    young, old = rows[::2], rows[1::2]
    assert {row.status for row in young} == {"correct"}
    assert {row.status for row in old} == {"mismatch"}


def test_a_verdict_hangs_on_time_where_it_would_be_another_had_clocks_been_less_late(timed):
    calm = replace(timed["right"], clock_disagreement=0.005)
    late = replace(calm, clock_disagreement=0.05, second_clock_ms=calm.runtime_ms.median)
    believed = replace(calm, clock_disagreement=0.05, second_clock_ms=calm.runtime_ms.median * 1.05)
    charged = replace(calm, labels=("deferred-work",))
    apart = replace(
        calm,
        status=Status.QUARANTINED,
        failure=Failure(name="ClocksDisagree", message=""),
        evidence={"violation": "ClocksDisagree"},
    )
    too_fast = replace(
        calm,
        status=Status.QUARANTINED,
        failure=Failure(name="FasterThanPossible", message=""),
        evidence={"floor_ms": 1.0},
    )
    assert [hangs_on_time(row) for row in (calm, believed, too_fast, timed["stale"])] == [False] * 4
    assert [hangs_on_time(row) for row in (late, charged, apart)] == [True] * 3


def test_a_verdict_that_hangs_on_time_is_reached_again_when_nothing_builds_beside():
    doubtful = kernel(  # which the oracle's clock does not bear out
        "time.sleep(0.003)",
        head="from kernel_evaluator.candidate import runner\n"
        "clock = runner.batch_clock\n"
        "def small(device, run):\n"
        "    outputs, milliseconds = clock(device, run)\n"
        "    return outputs, milliseconds * 0.9\n"
        "runner.batch_clock = small\n",
    )
    unbuilt = f"number = {time.time_ns()}\n"
    builds = kernel(
        head=f"from torch.utils import cpp_extension\n{unbuilt}time.sleep(3)\ncpp_extension.load_inline\n"
    )
    rows = judge(jobs_of(doubtful, RIGHT, builds))
    assert {row.status for row in rows.values()} == {"correct"}
    assert [sample for sample in rows if sample != 1] == [2, 0]
    assert hangs_on_time(rows[0])
