"""A run folder judged in place: what is judged anew, what is kept, and what reaches the board."""

import json
from dataclasses import replace

import pytest
from commandline import kbl
from fake_engine import FakeEngine
from kernel_evaluator.problems.jobs import Settings
from kernel_evaluator.problems.problem_set import ProblemSet
from kernel_evaluator.records.keys import KernelKey
from kernel_evaluator.records.rows import Environment
from kernel_evaluator.upstream.files import RunFolder

from leaderboard.files.store import StoreError
from leaderboard.runs.compare import compare
from leaderboard.runs.pack import PackError
from leaderboard.runs.reading import read_measured
from leaderboard.runs.run_evaluation import RunEvaluation, put_aside_foreign_results, result_of
from leaderboard.stages.engines import EvaluationError, Place

CPU = Environment(device="a CPU", gpu="CPU")
SETTINGS = Settings(device="cpu", sizes="reduced")


@pytest.fixture
def run(tmp_path):
    folder = RunFolder(path=tmp_path / "run")
    folder.write_kernel(KernelKey(1, 19), "# speedup 2.0\nclass ModelNew: ...\n")
    return folder


def judge(run, settings=SETTINGS, level=1, **more):
    evaluation = RunEvaluation(run=run, level=level, settings=settings, problem_set=ProblemSet(), **more)
    return evaluation.judge(Place(engine=FakeEngine(CPU), gpu="CPU"), lambda row: None)


@pytest.mark.parametrize(
    "changes",
    [
        {"precision": "fp16"},
        {"trials": 1},
        {"measure": False},
        {"profile": "compat"},
        {"profile": "compat", "timing_method": "host_time"},
    ],
)
def test_what_other_rules_judged_is_judged_again_and_reaches_no_board(run, changes):
    assert len(judge(run, replace(SETTINGS, **changes)).added) == 1
    with pytest.raises(StoreError, match="found none"):
        result_of(run)
    assert len(judge(run).added) == 1
    assert len(judge(run).added) == 0
    assert len(judge(run, replace(SETTINGS, **changes)).added) == 0
    assert [KernelKey(1, 19)] == [row.key for row in result_of(run).rows]


def test_what_another_clock_of_kernelbench_timed_is_judged_again(run):
    compat = replace(SETTINGS, profile="compat")
    for clock in (compat, replace(compat, timing_method="host_time")):
        assert (1, 0) == (len(judge(run, clock).added), len(judge(run, clock).added))
    ranked = replace(SETTINGS, timing_method="host_time")
    assert (1, 0) == (len(judge(run).added), len(judge(run, ranked).added)), "the board has one clock"


def test_a_run_says_in_which_precision_it_was_judged(run):
    judge(run)
    single = read_measured(run.path)
    judge(run, replace(SETTINGS, precision="bf16"))
    half = read_measured(run.path)
    assert ("fp32", "bf16") == (single.precision, half.precision)
    assert {} == compare(single, half).ratios, "each was held against a reference in its own precision"


def test_a_run_says_by_which_rules_and_clock_it_was_judged_and_two_are_not_compared(run):
    compat = replace(SETTINGS, profile="compat")
    found = []
    for settings in (SETTINGS, compat, replace(compat, timing_method="host_time")):
        judge(run, settings)
        found.append(read_measured(run.path))
    said = [("ranked", ""), ("compat", "cuda_event"), ("compat", "host_time")]
    assert said == [(each.profile, each.clock) for each in found]
    ranked, event, host = found
    pairs = ((event, event), (ranked, event), (event, host))
    assert [1, 0, 0] == [len(compare(*pair).ratios) for pair in pairs]
    shown = kbl("compare", run.path, run.path).stdout
    assert "A: run, CPU, reduced sizes, profile compat, clock host_time\n" in shown


def test_pass_at_k_is_of_the_verdicts_beside_it(run):
    run.write_kernel(KernelKey(1, 19, 1), "# status mismatch\nclass ModelNew: ...\n")
    found = []
    for samples, precision in ((2, "fp32"), (1, "bf16")):
        judge(run, replace(SETTINGS, precision=precision), samples=samples)
        found.append(json.loads(run.pass_at_k_path.read_text())["averages"]["avg_pass@1"])
    assert [0.5, 1.0] == found


def test_a_range_holds_both_its_ends_and_samples_below_their_number(run):
    keys = [*(KernelKey(1, problem) for problem in range(18, 22)), KernelKey(2, 19)]
    asked = {"run": run, "settings": SETTINGS, "problem_set": ProblemSet(), "first": 19, "last": 20}
    evaluation = RunEvaluation(level=1, samples=2, **asked)
    chosen = evaluation.selection(keys)
    assert (chosen.problems, chosen.samples) == ({(1, 19), (1, 20)}, {0, 1})
    assert replace(evaluation, problem_ids=(20, 21)).selection(keys).problems == {(1, 20)}


def test_a_range_without_a_kernel_is_not_taken_for_all_of_them(run):
    with pytest.raises(EvaluationError, match="no kernel of level 2 in the range asked for"):
        judge(run, level=2)
    assert not run.eval_results_path.exists()


def test_a_kernel_in_another_encoding_is_named(run):
    path = run.kernel_path(KernelKey(1, 20))
    path.write_bytes("# naïve".encode("latin-1"))
    with pytest.raises(PackError, match=f"{path.name}: must be UTF-8"):
        judge(run)


def test_results_of_another_level_are_not_replaced(run):
    judge(run)
    before = run.eval_results_path.read_bytes()
    run.write_kernel(KernelKey(2, 40), "class ModelNew: ...\n")
    with pytest.raises(EvaluationError, match="has results of level 1, which those of level 2 would replace"):
        judge(run, level=2)
    assert before == run.eval_results_path.read_bytes()


def test_what_other_evaluators_left_keeps_a_name_each(run):
    for problem in ("7", "8"):
        run.eval_results_path.write_text(json.dumps({problem: [{"sample_id": 0, "compiled": True}]}))
        put_aside_foreign_results(run)
        judge(run)
    names = ("eval_results.other.json", "eval_results.other1.json", "eval_results.json")
    assert [["7"], ["8"], ["19"]] == [list(json.loads((run.path / name).read_text())) for name in names]
    assert put_aside_foreign_results(run) is None
