"""Rows become KernelBench's files, and files of KernelBench's are read, with its own semantics."""

import json

import pytest
from kernel_evaluator.records.keys import KernelKey
from kernel_evaluator.records.rows import Environment, Failure, Row, Status, Timing
from kernel_evaluator.upstream.files import (
    RunAnalysis,
    RunFolder,
    baseline_means,
    execution_result,
    merge_results,
    pass_at_k_results,
    read_eval_results,
    write_eval_results,
)

HERE = Environment(device="NVIDIA H200", gpu="H200")


def row(status=Status.CORRECT, problem=1, sample=0, runtime=2.0, reference=4.0, **more):
    timed = status is Status.CORRECT
    times = {"n": 100, "std": 0.1, "min": 1.0, "max": 9.0}
    return Row(
        key=KernelKey(1, problem, sample),
        status=status,
        kernel_sha256="k",
        problem_sha256="p",
        evaluator_sha256="e",
        trials_passed=5 if timed else 2,
        trials_asked=5,
        runtime_ms=Timing(median=runtime, mean=runtime, **times) if timed else None,
        reference_ms=Timing(median=reference, mean=reference, **times) if timed else None,
        speedup=reference / runtime if timed else None,
        speedup_ci95=(1.9, 2.1) if timed else None,
        evidence={"x": 1} if status in (Status.FRAGILE, Status.REJECTED, Status.QUARANTINED) else None,
        **more,
    )


def test_a_run_folder_lists_its_kernels_and_passes_over_other_files(tmp_path):
    run = RunFolder(path=tmp_path / "runs" / "mine")
    run.write_kernel(KernelKey(1, 10, 1), "b = 2\n")
    run.write_kernel(KernelKey(1, 9), "a = 1\n")
    (run.path / "level_7_problem_1_sample_0_kernel.py").write_text("no level 7")
    (run.path / "notes.txt").write_text("mine")
    assert {KernelKey(1, 9): "a = 1\n", KernelKey(1, 10, 1): "b = 2\n"} == run.sources()
    assert "mine" == run.name


def test_a_correct_row_keeps_its_times_at_full_precision():
    result = execution_result(row(runtime=1.23456789), HERE)
    assert (True, True, 1.23456789) == (result["compiled"], result["correctness"], result["runtime"])
    assert {
        "mean": 1.23456789,
        "num_trials": 100,
        "hardware": "NVIDIA H200",
        "device": "cuda:0",
    }.items() <= result["runtime_stats"].items()
    assert "n" not in result["runtime_stats"]
    assert "(5 / 5)" == result["metadata"]["correctness_trials"]
    assert "excessive_speedup" not in result["metadata"]


def test_a_speedup_above_ten_is_marked():
    assert execution_result(row(runtime=1.0, reference=10.5))["metadata"]["excessive_speedup"] is True


@pytest.mark.parametrize(
    ("status", "compiled", "key"),
    [
        (Status.COMPILE_ERROR, False, "compilation_error"),
        (Status.MISMATCH, True, "correctness_issue"),
        (Status.RUNTIME_ERROR, True, "runtime_error"),
        (Status.OUT_OF_MEMORY, True, "runtime_error"),
        (Status.TIMEOUT, True, "error"),
        (Status.FRAGILE, True, "correctness_issue"),
        (Status.REJECTED, True, "correctness_issue"),
        (Status.INFRA_ERROR, False, "other_error"),
    ],
)
def test_each_failure_stands_where_kernelbench_puts_it(status, compiled, key):
    result = execution_result(row(status, failure=Failure(name="Oops", message="broken")))
    assert (compiled, False, -1.0, {}) == (
        result["compiled"],
        result["correctness"],
        result["runtime"],
        result["runtime_stats"],
    )
    assert key in result["metadata"]
    assert "broken" in result["metadata"].values()


def test_eval_results_survive_writing_and_reading_in_numeric_order(tmp_path):
    path = tmp_path / "eval_results.json"
    rows = [row(problem=10), row(problem=9, sample=1), row(Status.MISMATCH, problem=9)]
    write_eval_results(path, merge_results({}, [(item, HERE) for item in rows]))
    assert ["9", "10"] == list(json.loads(path.read_text()))
    again = read_eval_results(path)
    assert [0, 1] == [item["sample_id"] for item in again[9]]
    assert again == merge_results(again, [])


def test_judging_a_sample_again_replaces_its_result():
    first = merge_results({}, [(row(Status.TIMEOUT), None)])
    second = merge_results(first, [(row(), None)])
    assert ([False], [True]) == (
        [item["correctness"] for item in first[1]],
        [item["correctness"] for item in second[1]],
    )


def test_pass_at_k_is_unbiased_and_clamped_to_the_samples_there_are():
    results = merge_results(
        {}, [(row(Status.CORRECT if at < 2 else Status.MISMATCH, sample=at), None) for at in range(4)]
    )
    results = merge_results(results, [(row(Status.MISMATCH, problem=2), None)])
    found = pass_at_k_results(results, [1, 2])
    assert {"total_samples": 4, "correct_samples": 2, "pass@1": 0.5, "pass@2": pytest.approx(5 / 6)} == found[
        "problems"
    ]["1"]
    assert {"total_samples": 1, "correct_samples": 0, "pass@1": 0.0} == found["problems"]["2"]
    assert 0.25 == found["averages"]["avg_pass@1"]
    assert (2, 1) == (found["metadata"]["pass@1_count"], found["metadata"]["pass@2_count"])


def test_the_analysis_counts_missing_problems_as_failures_and_is_strict_about_the_threshold():
    rows = [
        row(problem=1, runtime=2.0),
        row(problem=2, runtime=4.0),
        row(Status.MISMATCH, problem=3),
        row(problem=1, sample=1),
    ]
    analysis = RunAnalysis(
        run_name="mine",
        level=1,
        hardware="H200",
        problem_count=100,
        results=merge_results({}, [(item, HERE) for item in rows]),
        baseline_ms={1: 4.0, 2: 4.0, 3: 4.0, 4: 4.0},
    ).to_json()
    assert (100, 3, 3, 2) == tuple(
        analysis[key] for key in ("total_count", "total_eval", "compiled_count", "correct_count")
    )
    assert 0.02 == analysis["correctness_rate"]
    assert pytest.approx(2**0.5) == analysis["geo_mean_speedup"]
    assert {"0.0": 0.02, "0.5": 0.02, "0.8": 0.02, "1.0": 0.01, "1.5": 0.01, "2.0": 0.0} == analysis["fast_p"]
    assert 100 == analysis["fast_p_denominator"]


def test_baseline_names_count_with_and_without_their_suffix_and_unmeasured_ones_are_left_out():
    timings = {"level1": {"1_a.py": {"mean": 1.5}, "2_b": {"mean": 2.5}, "3_c.py": None}}
    assert {1: 1.5, 2: 2.5} == baseline_means(timings, 1, {1: "1_a", 2: "2_b.py", 3: "3_c", 4: "4_d"})
