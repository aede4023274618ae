"""Scores broken down, and two runs side by side, from our result files and from KernelBench's run folders."""

import csv
import dataclasses
import io
import json
import math
from pathlib import Path

import pytest
from commandline import kbl
from kernel_evaluator.baselines import BaselineFile, BaselineTiming, ProblemBaseline, dump_baseline
from kernel_evaluator.problems.problem_set import ProblemSet
from kernel_evaluator.records.keys import KernelKey
from kernel_evaluator.records.rows import Environment, ResultFile, Row, Status, Timing
from kernel_evaluator.upstream.files import RunFolder, merge_results, write_eval_results

from leaderboard.files.store import StoreError, dump_result
from leaderboard.runs.analyze import MEASURED_BESIDE, Question, analyze
from leaderboard.runs.compare import compare
from leaderboard.runs.reading import read_measured, read_times
from leaderboard.stages.boards import read_certificates
from leaderboard.stages.categories import category
from leaderboard.texts.lists import counted

HERE = Environment(device="NVIDIA H200", gpu="H200")


def row(key, speedup=None, status=Status.CORRECT, interval=0.01, evidence=None):
    times = {"n": 10, "std": 0.0, "min": 1.0, "max": 9.0}
    timed = speedup is not None
    return Row(
        key=key,
        status=status,
        kernel_sha256="k",
        problem_sha256="p",
        evaluator_sha256="e",
        environment="here",
        runtime_ms=Timing(median=4.0 / speedup, mean=4.0 / speedup, **times) if timed else None,
        reference_ms=Timing(median=4.0, mean=4.0, **times) if timed else None,
        speedup=speedup,
        speedup_ci95=(speedup - interval, speedup + interval) if timed else None,
        evidence=evidence,
    )


ROWS = (
    row(KernelKey(1, 1), 2.0),
    row(KernelKey(1, 1, 1), status=Status.MISMATCH),
    row(KernelKey(1, 19), 0.5),
    row(KernelKey(1, 67), 1.0),
    row(KernelKey(1, 68), status=Status.COMPILE_ERROR),
)


def result_file(path, rows=ROWS, entry="mine"):
    result = ResultFile(
        entry=entry,
        submission_sha256="s",
        gpu="H200",
        sizes="full",
        profile="ranked",
        evaluator_version="0",
        started_at="t",
        finished_at="t",
        environments={"here": HERE},
        rows=rows,
    )
    path.write_text(dump_result(result))
    return path


def run_folder(path, rows=ROWS):
    run = RunFolder(path=path)
    for item in rows:
        run.write_kernel(item.key, "")
    write_eval_results(run.eval_results_path, merge_results({}, [(item, HERE) for item in rows]))
    return path


@pytest.fixture
def problem_set():
    return ProblemSet()


def by_group(figures):
    return {(item.group, item.against): item for item in figures}


@pytest.mark.parametrize(
    "written", [lambda path: result_file(path / "mine.json"), lambda path: run_folder(path / "mine")]
)
def test_both_kinds_of_files_give_the_same_scores(written, tmp_path, problem_set):
    measured = read_measured(written(tmp_path))
    figures = by_group(analyze(measured, problem_set, Question(pass_at=(1, 2))))
    level = figures["level 1", MEASURED_BESIDE]
    assert ("mine", "H200") == (measured.name, measured.hardware.removeprefix("NVIDIA "))
    assert (100, 4, 3, 3) == (level.problems, level.submitted, level.compiled, level.correct)
    assert pytest.approx(1.0) == level.geomean_speedup
    assert pytest.approx(2 ** (1 / 100)) == level.deployed_speedup
    assert {0.0: 0.03, 0.5: 0.02, 0.8: 0.02, 1.0: 0.01, 1.5: 0.01, 2.0: 0.0} == level.fast_p
    assert pytest.approx({1: 0.025, 2: 0.03}) == level.pass_at_k
    assert 1.0 == level.percentiles[50]


def test_a_time_in_quarantine_is_no_speedup(tmp_path, problem_set):
    waiting = row(KernelKey(1, 67), 50.0, status=Status.QUARANTINED, evidence={"violation": "x"})
    measured = read_measured(result_file(tmp_path / "mine.json", (*ROWS[:3], waiting)))
    level = by_group(analyze(measured, problem_set, Question()))["level 1", MEASURED_BESIDE]
    assert (2, 2, pytest.approx(1.0)) == (level.correct, level.timed, level.geomean_speedup)


def test_figures_of_a_run_without_times_are_blank_and_not_zero(tmp_path, problem_set):
    untimed = [dataclasses.replace(item, speedup=None, runtime_ms=None, reference_ms=None) for item in ROWS]
    found = analyze(
        read_measured(result_file(tmp_path / "mine.json", tuple(untimed))), problem_set, Question()
    )
    level = by_group(found)["level 1", MEASURED_BESIDE]
    assert (3, 0, None) == (level.correct, level.timed, level.deployed_speedup)
    assert {None} == set(level.fast_p.values())
    later = (row(KernelKey(1, 1), status=Status.MISMATCH), row(KernelKey(1, 1, 1), 2.0))
    [level] = analyze(
        read_measured(result_file(tmp_path / "mine.json", later)), problem_set, Question(by_category=False)
    )
    assert (0, 1.0, {0.0}) == (level.correct, level.deployed_speedup, set(level.fast_p.values()))


def test_a_run_of_two_levels_is_scored_as_a_whole_and_by_level(tmp_path, problem_set):
    rows = (*ROWS, row(KernelKey(2, 1), 4.0), row(KernelKey(2, 2), status=Status.MISMATCH))
    measured = read_measured(result_file(tmp_path / "mine.json", rows))
    found = analyze(measured, problem_set, Question(by_category=False))
    assert [("all", 200, 6, 4), ("level 1", 100, 4, 3), ("level 2", 100, 2, 1)] == [
        (each.group, each.problems, each.submitted, each.correct) for each in found
    ]


def test_categories_partition_a_level(tmp_path, problem_set):
    measured = read_measured(result_file(tmp_path / "mine.json"))
    figures = analyze(measured, problem_set, Question())
    parts = [item for item in figures if item.group.startswith("level 1: ")]
    assert 100 == sum(item.problems for item in parts)
    assert 2 == by_group(figures)["level 1: convolution", MEASURED_BESIDE].submitted


@pytest.mark.parametrize(
    ("level", "name", "word"),
    [
        (1, "23_Softmax", "activation"),
        (1, "33_BatchNorm", "normalization"),
        (1, "12_Matmul_with_diagonal_matrices_", "matmul"),
        (1, "51_Argmax_over_a_dimension", "reduction"),
        (1, "93_masked_cumsum", "scan"),
        (2, "12_Gemm_Multiply_LeakyReLU", "matmul chain"),
        (3, "48_Mamba2ReturnY", "recurrent"),
        (3, "9_ResNet18", "convolutional"),
    ],
)
def test_a_category_is_told_by_the_name(level, name, word):
    assert word == category(level, name)


def test_rates_are_over_the_problems_of_the_set_that_is_named(tmp_path, problem_set):
    (tmp_path / "level1").mkdir()
    for problem in (problem_set.load(1, i) for i in (1, 19, 20)):
        (tmp_path / "level1" / problem.path.name).write_text(problem.source)
    measured = read_measured(result_file(tmp_path / "mine.json"))
    [run] = analyze(measured, ProblemSet(tmp_path), Question(by_category=False))
    assert (5, 3, 0.6) == (run.problems, run.correct, run.flat()["correct_rate"]), (
        "two more are the run's own"
    )


def test_a_timing_file_is_another_reference(tmp_path, problem_set):
    timings = tmp_path / "baseline_time_torch_compile.json"
    timings.write_text(
        json.dumps({"level1": {"1_Square_matrix_multiplication_.py": {"mean": 6.0}, "19_ReLU": None}})
    )
    failed = tmp_path / "of_a_kernel_that_failed.json"
    failed.write_text(json.dumps({"level1": {ProblemSet().load(1, 68).name: {"mean": 6.0}}}))
    against = [word for told in (f"compile={timings}", f"failed={failed}") for word in ("--against", told)]
    done = kbl("analyze", result_file(tmp_path / "mine.json"), *against, "--format", "json")
    [note] = done.stderr.splitlines()
    assert note.startswith("note: --against failed shows no speedups: ")
    lines = {(line["group"], line["against"]): line for line in json.loads(done.stdout)["lines"]}
    line = lines["level 1", "compile"]
    assert (1, pytest.approx(3.0), 0.01) == (line["timed"], line["geomean"], line["fast_2"])


@pytest.mark.parametrize(
    ("level", "options", "says"),
    [
        ("level2", (), "--against compile: the file has no time for any problem of mine"),
        ("level1", ("--k", "3"), "--k 3: mine has 2 samples of a problem at most"),
    ],
)
def test_a_column_that_could_say_nothing_is_refused(tmp_path, level, options, says):
    timings = tmp_path / "baseline_time_torch_compile.json"
    timings.write_text(json.dumps({level: {"1_Square_matrix_multiplication_.py": {"mean": 6.0}}}))
    done = kbl("analyze", result_file(tmp_path / "mine.json"), "--against", f"compile={timings}", *options)
    assert 2 == done.returncode
    assert says in done.stderr


def test_a_baseline_of_ours_is_another_reference_too(tmp_path, problem_set):
    times = BaselineTiming(mean=6.0, std=0.0, min=5.0, max=7.0, n=9, median=5.5)
    baseline = BaselineFile(
        gpu="H200",
        source="test",
        measured_here=True,
        environment=HERE,
        problems={"1_1": ProblemBaseline(eager=times, compiled=None)},
    )
    (tmp_path / "H200.json").write_text(dump_baseline(baseline))
    assert {(1, 1): 6.0} == read_times(str(tmp_path / "H200.json"), problem_set).ms
    assert {} == read_times(f"{tmp_path / 'H200.json'}:compiled", problem_set).ms


def test_a_run_is_as_fast_as_a_baseline_that_was_made_of_its_own_rows(repository):
    own = f"own={repository / 'baselines/H100.json'}:compiled"
    source = repository / "data/results/H100/torch-compile.json"
    told = kbl("analyze", source, "--against", own, "--format", "json", "--no-categories").stdout
    lines = [line for line in json.loads(told)["lines"] if line["against"] == "own"]
    assert [1.0] * 4 * 3 == [pytest.approx(line[of]) for line in lines for of in ("geomean", "p10", "p90")]


@pytest.mark.parametrize(
    ("other", "says"),
    [
        ({"gpu": "H100"}, "--against eager: times of H100, but mine was measured on H200"),
        ({"sizes": "reduced"}, "--against eager: times at reduced sizes, but mine ran at full sizes"),
        ({"precision": "bf16"}, "--against eager: times in bf16, but mine was measured in fp32"),
    ],
)
def test_times_of_another_gpu_at_other_sizes_or_in_another_precision_are_refused(tmp_path, other, says):
    times = BaselineTiming(mean=6.0, std=0.0, min=5.0, max=7.0, n=9, median=5.5)
    facts = {"gpu": "H200", "source": "test", "measured_here": True, "environment": HERE}
    problems = {"1_1": ProblemBaseline(eager=times, compiled=None)}
    (tmp_path / "times.json").write_text(dump_baseline(BaselineFile(**facts | other, problems=problems)))
    done = kbl(
        "analyze", result_file(tmp_path / "mine.json"), "--against", f"eager={tmp_path / 'times.json'}"
    )
    assert 2 == done.returncode
    assert says in done.stderr


@pytest.mark.parametrize(
    ("stats", "says"),
    [
        ({"mean": 6.0, "hardware": "NVIDIA H100 80GB HBM3", "device": "cuda:0"}, "times of H100, but mine"),
        (
            {"mean": 6.0, "hardware": "AMD EPYC", "device": "cpu"},
            "times of CPU, but mine was measured on H200",
        ),
        ({"mean": 6.0, "precision": "bf16"}, "times in bf16, but mine was measured in fp32"),
        ([6.0], "times.json: not a timing file"),
        (
            {"mean": -1.0},
            "times.json: not a timing file: level 1 problem 1: mean must be positive milliseconds",
        ),
        ({"mean": 0}, "times.json: not a timing file: level 1 problem 1: mean must be positive milliseconds"),
    ],
)
def test_a_timing_file_is_of_the_device_that_it_names(tmp_path, stats, says):
    timings = {"level1": {"19_ReLU.py": None, "1_Square_matrix_multiplication_.py": stats}}
    (tmp_path / "times.json").write_text(json.dumps(timings))
    done = kbl(
        "analyze", result_file(tmp_path / "mine.json"), "--against", f"eager={tmp_path / 'times.json'}"
    )
    assert (2, True) == (done.returncode, says in done.stderr), done.stderr


def test_thresholds_that_are_close_have_a_column_each(tmp_path):
    asked = [word for p in ("3", "2.9999999", "0.8") for word in ("--threshold", p)]
    done = kbl("analyze", result_file(tmp_path / "mine.json"), *asked, "--format", "json")
    line = json.loads(done.stdout)["lines"][0]
    assert ["fast_0.8", "fast_2.9999999", "fast_3"] == [name for name in line if name.startswith("fast_")]


def test_a_run_without_samples_0_is_told_that_they_alone_are_scored(tmp_path):
    run = run_folder(tmp_path / "run")
    item = {"sample_id": 1, "compiled": True, "correctness": True, "runtime": 2.0, "ref_runtime": 3.0}
    (run / "eval_results.json").write_text(json.dumps({"1": [item], "19": [{**item, "sample_id": 0}]}))
    said = "note: 1/1 has samples but no sample 0, which alone is scored; others serve pass@k\n"
    done = kbl("analyze", run)
    assert (0, said) == (done.returncode, done.stderr)


def test_two_files_of_one_name_are_not_mixed_up(tmp_path):
    named = [word for name in "ab" for word in ("--against", f"compile={tmp_path / name}")]
    done = kbl("analyze", result_file(tmp_path / "mine.json"), *named)
    said = "error: --against names 'compile' 2 times; give each file a name of its own\n"
    assert (2, said) == (done.returncode, done.stderr)


def test_a_timing_file_of_no_device_is_of_no_sizes(tmp_path, problem_set):
    def conditions(**stats):
        (tmp_path / "times.json").write_text(json.dumps({"level1": {"19_ReLU.py": {"mean": 6.0} | stats}}))
        times = read_times(str(tmp_path / "times.json"), problem_set)
        return times.hardware, times.sizes

    found = conditions(), conditions(hardware="NVIDIA H200"), conditions(device="cpu")
    assert (("", ""), ("H200", "full"), ("CPU", "reduced")) == found
    assert ("", "") == conditions(device="cuda:0"), "a place says nothing of the model"


def test_figures_come_as_a_table_as_csv_and_as_a_picture(tmp_path):
    source = result_file(tmp_path / "mine.json")
    assert "level 1: convolution" in kbl("analyze", source).stdout
    picture = tmp_path / "new folder" / "curve.svg"
    text = kbl(
        "analyze", source, "--no-categories", "--format", "csv", "--threshold", "1", "--plot", picture
    ).stdout
    [line] = csv.DictReader(io.StringIO(text))
    assert ("level 1", "0.01") == (line["group"], line["fast_1"])
    assert "<svg" in picture.read_text()


@pytest.mark.parametrize("name", ["curve.gif", "curve.pdf", "curve"])
def test_a_picture_of_another_kind_than_the_help_names_is_refused(tmp_path, name):
    source = result_file(tmp_path / "mine.json")
    done = kbl("analyze", source, "--plot", tmp_path / name)
    assert (2, "", [source.name]) == (
        done.returncode,
        done.stdout,
        [each.name for each in tmp_path.iterdir()],
    )
    assert all(said in done.stderr for said in ("--plot", ".svg", ".png", name)), done.stderr


@pytest.mark.parametrize("threshold", ["nan", "inf", "-1"])
def test_a_threshold_that_no_speedup_can_pass_or_miss_is_refused(tmp_path, threshold):
    done = kbl("analyze", result_file(tmp_path / "mine.json"), "--threshold", "1", "--threshold", threshold)
    assert (2, "") == (done.returncode, done.stdout), done.stderr
    assert "--threshold" in done.stderr


def test_a_file_that_holds_no_results_is_said_to(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(StoreError, match="evaluate the run first"):
        read_measured(tmp_path / "empty")
    done = kbl("analyze", tmp_path / "none.json")
    assert (2, True) == (done.returncode, done.stderr.startswith("error: "))
    assert "Traceback" not in done.stderr


def test_a_run_of_which_no_kernel_was_judged_is_said_to_be_one(tmp_path):
    run = run_folder(tmp_path / "run")
    (run / "eval_results.json").write_text("{}")
    done = kbl("analyze", run)
    assert (2, "error: run: no kernel of it was judged; evaluate it first\n") == (
        done.returncode,
        done.stderr,
    )


def test_results_of_a_run_that_are_no_json_are_an_error_in_one_line(tmp_path):
    results = run_folder(tmp_path / "run") / "eval_results.json"
    for content in (b"[" * 200_000, b"{" + b" " * 200_000 + b"\xe9"):
        results.write_bytes(content)
        done = kbl("analyze", results.parent)
        assert done.returncode == 2
        assert done.stderr.startswith(f"error: {results}: not a results file"), done.stderr[-300:]
        assert len(done.stderr) < 1000, "the file itself is not said"


@pytest.mark.parametrize(
    "field",
    [
        *({"correctness": "False"}, {"compiled": "True"}),
        *({"metadata": [1]}, {"speedup": "fast"}, {"speedup_ci95": [1.0]}, {"speedup_ci95": ["a", "b"]}),
        *({"speedup_ci95": [0, 0]}, {"speedup_ci95": [2, 1]}),
        *({"speedup": -1.0}, {"speedup": 0}, {"speedup": math.nan}, {"speedup": math.inf}),
    ],
)
def test_a_broken_figure_of_a_run_is_named_with_its_file(tmp_path, field):
    results = run_folder(tmp_path / "run") / "eval_results.json"
    items = json.loads(results.read_text())
    items["1"][0] |= field
    results.write_text(json.dumps(items))
    for arguments in (("analyze", results.parent), ("compare", results.parent, results.parent)):
        done = kbl(*arguments)
        assert (2, True) == (done.returncode, done.stderr.startswith(f"error: {results}: not a results file"))


def test_a_null_says_as_little_as_what_is_left_out(tmp_path):
    results = run_folder(tmp_path / "run") / "eval_results.json"
    items = json.loads(results.read_text())
    items["2"] = [{"sample_id": 0, "compiled": True, "correctness": False}]
    results.write_text(json.dumps(items))
    left_out = read_measured(results.parent)
    items["2"][0] |= {"runtime": None, "ref_runtime": None, "metadata": None, "speedup": None}
    results.write_text(json.dumps(items))
    assert left_out == read_measured(results.parent)


def test_a_sample_with_two_verdicts_has_none(tmp_path):
    results = run_folder(tmp_path / "run") / "eval_results.json"
    items = json.loads(results.read_text())
    items["1"].append({**items["1"][0], "correctness": False})
    results.write_text(json.dumps(items))
    with pytest.raises(StoreError, match="problem 1 has sample 0 2 times; keep one"):
        read_measured(results.parent)


def test_times_that_kernelbench_measured_beside_give_speedups(tmp_path):
    run = run_folder(tmp_path / "run")
    item = {"sample_id": 0, "compiled": True, "correctness": True, "metadata": {"hardware": "NVIDIA H100"}}
    item |= {"runtime": 2.0, "ref_runtime": 3.0}
    items = {"1": item, "19": {**item, "ref_runtime": -1.0}, "67": {**item, "correctness": False}}
    (run / "eval_results.json").write_text(json.dumps(items))
    samples = [read_measured(run).samples[KernelKey(1, problem)] for problem in (1, 19, 67)]
    assert [(1.5, 2.0), (None, 2.0), (None, None)] == [(each.speedup, each.runtime_ms) for each in samples]
    assert ["correct", "correct", "failed"] == [each.status for each in samples]


def test_times_whose_ratio_is_no_number_give_no_speedup(tmp_path):
    run = run_folder(tmp_path / "run")
    item = {"compiled": True, "correctness": True, "runtime": 1e-320, "ref_runtime": 1e300}
    (run / "eval_results.json").write_text(json.dumps({"1": [item]}))
    assert read_measured(run).samples[KernelKey(1, 1)].speedup is None


def test_only_what_was_measured_alike_is_compared(tmp_path):
    ours = result_file(tmp_path / "a.json")
    reduced = json.loads(ours.read_text()) | {"sizes": "reduced"}
    (tmp_path / "reduced.json").write_text(json.dumps(reduced))
    untimed = [row(KernelKey(1, 1), 3.0)]
    run = run_folder(tmp_path / "run", untimed)
    items = json.loads((run / "eval_results.json").read_text())
    items["1"][0] |= {"speedup": None, "ref_runtime": -1.0}
    items["1"][0]["metadata"]["hardware"] = "NVIDIA H100 80GB HBM3"
    (run / "eval_results.json").write_text(json.dumps(items))
    sizes = kbl("compare", ours, tmp_path / "reduced.json").stdout
    assert "A: mine, H200, full sizes\nB: mine, H200, reduced sizes\n" in sizes
    assert "B faster than A, geomean: - over 0 problems" in sizes
    half = json.loads(ours.read_text()) | {"precision": "bf16"}
    (tmp_path / "half.json").write_text(json.dumps(half))
    precisions = kbl("compare", ours, tmp_path / "half.json").stdout
    assert "A: mine, H200, full sizes\nB: mine, H200 in bf16, full sizes\n" in precisions
    assert "B faster than A, geomean: - over 0 problems" in precisions
    machines = kbl("compare", ours, run).stdout
    assert "B: run, H100, full sizes" in machines
    assert "geomean: - over 0 problems" in machines


def test_what_other_rules_timed_is_not_compared(tmp_path):
    ours = result_file(tmp_path / "a.json")
    compat = json.loads(ours.read_text()) | {"profile": "compat"}
    (tmp_path / "compat.json").write_text(json.dumps(compat))
    shown = kbl("compare", ours, tmp_path / "compat.json").stdout
    assert "A: mine, H200, full sizes\nB: mine, H200, full sizes, profile compat\n" in shown
    assert "B faster than A, geomean: - over 0 problems" in shown


def test_what_solves_another_problem_is_not_compared(tmp_path):
    ours = result_file(tmp_path / "a.json")
    other = json.loads(ours.read_text())
    changed = [item for item in other["rows"] if item["key"].startswith("level_1_problem_1_")]
    for item in changed:
        item["problem_sha256"] = "another"
    (tmp_path / "other.json").write_text(json.dumps(other))
    shown = kbl("compare", ours, tmp_path / "other.json").stdout
    assert f"not compared: {counted(len(changed), 'kernel')} whose problems differ in source" in shown
    said = json.loads(kbl("compare", ours, tmp_path / "other.json", "--format", "json").stdout)
    timed = {line["key"] for line in said["lines"] if line["ratio"]}
    assert timed
    assert not timed & {item["key"] for item in changed}
    assert "not compared" not in kbl("compare", ours, ours).stdout


def test_a_run_without_metadata_is_analyzed_all_the_same(tmp_path):
    results = run_folder(tmp_path / "run") / "eval_results.json"
    items = json.loads(results.read_text())
    items["1"][0]["metadata"] = None
    results.write_text(json.dumps(items))
    assert 0 == kbl("analyze", results.parent).returncode


def test_two_runs_side_by_side(tmp_path):
    other = (row(KernelKey(1, 1), 4.0), row(KernelKey(1, 19), 0.505), row(KernelKey(1, 68), 1.0))
    a, b = result_file(tmp_path / "a.json", entry="a"), result_file(tmp_path / "b.json", other, entry="b")
    comparison = compare(read_measured(a), read_measured(b))
    assert {"both": 2, "only A": 1, "only B": 1, "neither": 1} == comparison.outcomes
    ratios = {str(pair.key): (pair.ratio, pair.clear) for pair in comparison.pairs if pair.ratio}
    assert {
        "level_1_problem_1_sample_0": (2.0, True),
        "level_1_problem_19_sample_0": (pytest.approx(1.01), False),
    } == ratios
    low, high = comparison.geomean_ci95
    assert low <= comparison.geomean_ratio <= high
    shown = kbl("compare", a, b).stdout
    assert "2.000*" in shown
    assert "only A 1" in shown


def test_what_only_one_run_sent_is_listed_last(tmp_path):
    wrong = row(KernelKey(1, 19), status=Status.MISMATCH)
    a = result_file(tmp_path / "a.json", (row(KernelKey(1, 1), 1.0), row(KernelKey(1, 68), 1.0)), entry="a")
    b = result_file(tmp_path / "b.json", (wrong, row(KernelKey(1, 68), 1.5)), entry="b")
    table = kbl("compare", a, b).stdout.partition("\n\n")[2].splitlines()
    assert "kernel                       A        B         B over A" == table[0]
    assert [
        "level_1_problem_68_sample_0  1.000x   1.500x    1.500*",
        "level_1_problem_1_sample_0   1.000x   missing   -",
        "level_1_problem_19_sample_0  missing  mismatch  -",
    ] == table[2:]


def test_a_comparison_says_that_it_does_not_list_all(tmp_path):
    ours = result_file(tmp_path / "a.json")
    shown = {top: kbl("compare", ours, ours, "--top", str(top)).stdout for top in (1, 0)}
    count = len(read_measured(ours).samples)
    assert [True, False] == [
        f"listed: 1 of {count} kernels; --top 0 lists all\n" in shown[top] for top in shown
    ]


def test_a_run_has_its_folder_s_name_from_within_too(tmp_path, monkeypatch):
    monkeypatch.chdir(run_folder(tmp_path / "run"))
    assert "run" == read_measured(Path()).name == read_measured(Path("eval_results.json")).name


def test_more_samples_of_the_same_problems_do_not_make_a_comparison_surer(tmp_path):
    faster = {1: 0.9, 19: 1.3, 67: 1.1}

    def interval(samples):
        keys = [KernelKey(1, i, sample) for i in faster for sample in range(samples)]
        before = result_file(tmp_path / "a.json", [row(key, 1.0) for key in keys], entry="a")
        after = result_file(
            tmp_path / "b.json", [row(key, faster[key.problem_id]) for key in keys], entry="b"
        )
        return compare(read_measured(before), read_measured(after)).geomean_ci95

    assert pytest.approx(interval(1)) == interval(50)


def test_plain_times_of_one_machine_say_how_much_faster_b_is_and_the_largest_change_comes_first(tmp_path):
    def run(name, times):
        folder = run_folder(tmp_path / name, [row(KernelKey(1, problem), 1.0) for problem in times])
        items = json.loads((folder / "eval_results.json").read_text())
        for problem, ms in times.items():
            items[str(problem)][0] |= {
                "runtime": ms,
                "speedup": None,
                "speedup_ci95": None,
                "ref_runtime": -1.0,
            }
        (folder / "eval_results.json").write_text(json.dumps(items))
        return read_measured(folder)

    comparison = compare(run("a", {1: 4.0, 19: 4.0}), run("b", {1: 3.0, 19: 1.0}))
    assert [(19, 4.0), (1, pytest.approx(4 / 3))] == [(p.key.problem_id, p.ratio) for p in comparison.pairs]


def test_intervals_lie_apart_whichever_run_is_faster(tmp_path):
    fast = read_measured(result_file(tmp_path / "fast.json", [row(KernelKey(1, 1), 2.0)]))
    slow = read_measured(result_file(tmp_path / "slow.json", [row(KernelKey(1, 1), 1.0)]))
    assert [True, True] == [compare(*runs).pairs[0].clear for runs in ((fast, slow), (slow, fast))]


@pytest.mark.parametrize("written", [result_file, run_folder])
def test_a_difference_that_another_gpu_may_make_is_not_clear(written, tmp_path):
    paths = [written(tmp_path / f"{s}.json", [row(KernelKey(1, 1), s)]) for s in (1.0, 1.04, 1.08)]
    one, near, far = map(read_measured, paths)
    assert [False, True] == [compare(one, other).pairs[0].clear for other in (near, far)]


def test_a_comparison_as_json_holds_figures_and_no_sentences(tmp_path):
    ours = result_file(tmp_path / "a.json")
    said = json.loads(kbl("compare", ours, ours, "--format", "json").stdout)
    side = {"name": "mine", "hardware": "H200", "precision": "fp32", "sizes": "full", "profile": "ranked"}
    side["clock"] = ""
    assert (side, side) == (said["a"], said["b"])
    timed = {line["key"].rsplit("_sample")[0] for line in said["lines"] if line["ratio"]}
    assert (1.0, [1.0, 1.0], len(timed)) == tuple(
        said[name] for name in ("geomean_ratio", "geomean_ratio_ci95", "problems")
    )
    assert len(said["lines"]) == sum(said["correct"].values())
    assert ["both", "only_a", "only_b", "neither"] == list(said["correct"])


def test_a_run_compared_with_itself_differs_nowhere(tmp_path):
    measured = read_measured(result_file(tmp_path / "a.json"))
    comparison = compare(measured, measured)
    assert (1.0, (1.0, 1.0)) == (comparison.geomean_ratio, comparison.geomean_ci95)
    assert not any(pair.clear for pair in comparison.pairs)


def test_a_comparison_counts_what_does_not_rank_and_says_so():
    paths = [Path(f"data/results/H200/founders-{name}.json") for name in ("triton", "cuda")]
    comparison = compare(*map(read_measured, paths))
    unranked = read_certificates()["fp32"]
    counted = {f"{level}_{problem}" for level, problem in comparison.ratios}
    assert counted & unranked.keys()
    said = kbl("compare", "--help").stdout
    assert "of problems that do not rank too" in " ".join(said.split())
