"""KernelBench's own commands, one after the other, as its README walks through them: CPU, reduced sizes."""

import dataclasses
import io
import json
import re
import subprocess
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout

import pytest
from canned_model import CannedModel, serving
from compiling import TINY
from kernel_evaluator.records.rows import ResultFile

from leaderboard.files.store import StoreError
from leaderboard.files.submission import parse
from leaderboard.generate.extract import code_blocks
from leaderboard.seed_scripts import (
    benchmark_eval_analysis,
    combine_runs_to_submission,
    generate_baseline_time,
    run_and_check,
    update_leaderboard,
)
from leaderboard.seed_scripts.options import OptionError, read_options


def copy_of_the_reference(messages, number):
    """What a cautious model answers: the module itself, renamed."""
    return re.sub(r"\bModel\b", "ModelNew", code_blocks(messages[0]["content"])[0].code) + "\n"


def script(repository, folder, name, *arguments):
    done = subprocess.run(
        [sys.executable, str(repository / "scripts" / f"{name}.py"), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


def here(main, folder, *arguments):
    """Run a script within this process, which loads its modules once: its status, and what it says."""
    with chdir(folder), redirect_stdout(io.StringIO()) as said, redirect_stderr(io.StringIO()) as told:
        code = main(arguments)
    return code, said.getvalue(), told.getvalue()


@pytest.mark.timeout(900)
def test_the_walk_through_command_by_command(tmp_path, repository):
    chosen = {1: "(19,20)", 2: "(40,40)", 3: "(1,1)"}
    server = CannedModel(copy_of_the_reference)
    with serving(server) as url:
        for level, subset in chosen.items():
            done = script(
                *(repository, tmp_path, "generate_samples"),
                *("dataset_src=local", f"level={level}", f"subset={subset}", f"run_name=run_level{level}"),
                *("server_type=local", f"base_url={url}", "model_name=canned", "prompt_option=zero_shot"),
                *("temperature=0", "check_kernel=False", "num_workers=4"),
            )
            assert 0 == done.returncode, done.stderr
    assert 4 == len(server.requests)
    assert (tmp_path / "runs/run_level1/level_1_problem_19_sample_0_kernel.py").is_file()

    for level in chosen:
        for _ in range(5):  # as it says where the host was too busy for a verdict
            done = script(
                *(repository, tmp_path, "eval_from_generations"),
                *("dataset_src=local", f"level={level}", f"run_name=run_level{level}", "device=cpu"),
                "timeout=120",
            )
            if "error: kernels still to judge" not in done.stderr:
                break
        assert 0 == done.returncode, done.stderr + done.stdout
        done = script(
            *(repository, tmp_path, "benchmark_eval_analysis"),
            *(f"run_name=run_level{level}", f"level={level}", "hardware=laptop", "baseline=measured"),
            f"output_file=analysis_level{level}.json",
        )
        assert 0 == done.returncode, done.stderr
        assert f"run_level{level}, level {level}, laptop (judged on CPU)" in done.stdout
    results = json.loads((tmp_path / "runs/run_level1/eval_results.json").read_text())
    alone = tmp_path / "runs/alone/eval_results.json"
    alone.parent.mkdir()
    alone.write_text(json.dumps(results))
    analysing = (benchmark_eval_analysis.main, tmp_path, "run_name=alone", "level=1", "hardware=CPU")
    code, said, told = here(*analysing, "baseline=measured")
    assert (0, True) == (code, "alone, level 1, CPU\n" in said), told
    next(iter(results.values()))[0]["metadata"] = [1]
    alone.write_text(json.dumps(results))
    told = "error: runs/alone/eval_results.json: not a results file: metadata must be an object, got [1]\n"
    assert (2, "", told) == here(*analysing, "baseline=measured")
    results = json.loads((tmp_path / "runs/run_level1/eval_results.json").read_text())
    firsts = {problem: items[0] for problem, items in results.items()}
    assert {"19": "(5 / 5)", "20": "(5 / 5)"} == {
        problem: item["metadata"]["correctness_trials"] for problem, item in firsts.items()
    }
    # A machine that is busy with other things makes the evaluator doubt its clock: that is no wrong verdict.
    assert {item["status"] for item in firsts.values()} <= {"correct", "quarantined"}
    correct = sum(item["correctness"] for item in firsts.values())
    analysis = json.loads((tmp_path / "analysis_level1.json").read_text())
    assert (100, correct, 2) == (analysis["total_count"], analysis["correct_count"], analysis["total_eval"])

    done = script(
        *(repository, tmp_path, "combine_runs_to_submission"),
        *("--level1_run", "run_level1", "--level2_run", "run_level2", "--level3_run", "run_level3"),
        *("--output", "submissions/canned.json", "--display_name", "Canned", "--organization", "Us"),
    )
    assert 0 == done.returncode, done.stderr
    assert 4 == len(json.loads((tmp_path / "submissions/canned.json").read_text())["kernels"])

    done = script(
        *(repository, tmp_path, "submission_to_run"),
        *("--submission", "submissions/canned.json", "--run_name", "again"),
    )
    kernel = "level_2_problem_40_sample_0_kernel.py"
    assert 0 == done.returncode, done.stderr
    assert (tmp_path / "runs/run_level2" / kernel).read_bytes() == (
        tmp_path / "runs/again_level2" / kernel
    ).read_bytes()

    done = script(
        *(repository, tmp_path, "update_leaderboard"),
        *("--level1", "analysis_level1.json", "--level2", "analysis_level2.json"),
        *("--level3", "analysis_level3.json", "--submission", "submissions/canned.json", "--hardware", "CPU"),
    )
    assert 0 == done.returncode, done.stderr
    assert "canned" in done.stdout
    recorded = json.loads((tmp_path / "data/results/CPU-reduced/canned.json").read_text())
    assert 4 == len(recorded["rows"])
    assert {row["status"] for row in recorded["rows"]} <= {"correct", "quarantined"}


JUDGED = {"19": [{"sample_id": 0, "compiled": True, "correctness": True, "runtime": 1.0, "ref_runtime": 2.0}]}


def analysed(folder, level, results, pass_at_k=None):
    """A run of one kernel of level 1 with these result files, analysed."""
    run = folder / "runs/one"
    run.mkdir(parents=True, exist_ok=True)
    (run / "level_1_problem_19_sample_0_kernel.py").write_text("")
    (run / "eval_results.json").write_text(results if isinstance(results, str) else json.dumps(results))
    if pass_at_k is not None:
        (run / "pass_at_k_results.json").write_text(pass_at_k)
    options = ("run_name=one", f"level={level}", "hardware=H100", "baseline=measured", "output_file=out.json")
    code, _, told = here(benchmark_eval_analysis.main, folder, *options)
    assert (code == 0) == (folder / "out.json").exists()
    return code, told


def test_a_level_is_taken_from_the_run_that_is_named_for_it(tmp_path):
    for name, keys in {
        "both": ("level_1_problem_1", "level_2_problem_1"),
        "other": ("level_2_problem_2",),
    }.items():
        (tmp_path / "runs" / name).mkdir(parents=True)
        for key in keys:
            (tmp_path / f"runs/{name}/{key}_sample_0_kernel.py").write_text("class ModelNew: ...\n")
    out = ("--output=mine.json", "--display_name=Mine")
    runs = ("--level1_run=both", "--level2_run=other", "--level3_run=both")
    code, _, told = here(combine_runs_to_submission.main, tmp_path, *runs, *out)
    said = "error: level3_run: runs/both holds kernels of level 1 and 2; name a run of level 3\n"
    assert (2, said) == (code, told)
    code, _, told = here(combine_runs_to_submission.main, tmp_path, *runs[:2], "--level3_run=", *out)
    assert 0 == code, told
    kernels = json.loads((tmp_path / "mine.json").read_text())["kernels"]
    assert ["level_1_problem_1_sample_0", "level_2_problem_2_sample_0"] == list(kernels)


def test_sample_0_is_held_against_the_reference_beside_it_in_whatever_order_samples_ended(tmp_path):
    wrong = {"sample_id": 1, "compiled": True, "correctness": False, "runtime": -1.0, "ref_runtime": -1.0}
    assert (0, "") == analysed(tmp_path, 1, {"19": [wrong, *JUDGED["19"]]})
    assert 2.0 == json.loads((tmp_path / "out.json").read_text())["geo_mean_speedup"]


@pytest.mark.parametrize(
    ("level", "said"),
    [
        (2, "runs/one: holds kernels of level 1, not of level 2; mend level=…"),
        (9, "level must be one of 1, 2, 3, 4, got 9"),
    ],
)
def test_a_run_gives_no_figures_of_a_level_that_it_does_not_hold(tmp_path, level, said):
    assert (2, f"error: {said}\n") == analysed(tmp_path, level, JUDGED)
    assert (0, "") == analysed(tmp_path, 1, JUDGED)


@pytest.mark.parametrize(
    ("results", "why"),
    [
        ("", "Expecting value"),
        ("\ufeff{}", "Unexpected UTF-8 BOM"),
        ({"nineteen": []}, "invalid literal for int() with base 10: 'nineteen'"),
        (
            {"19": [{**JUDGED["19"][0], "correctness": "False"}]},
            "problem 19: correctness must be true or false, got 'False'",
        ),
        ({"19": [5]}, "problem 19: a sample's result must be an object, got 5"),
        ({"19": None}, "problem 19: a sample's result must be an object, got None"),
        ([JUDGED["19"]], "it must be an object of problems, each with the results of its samples"),
        ({"19": [{"correctness": True}]}, "problem 19: compiled must be true or false, got None"),
        (
            {"19": [{**JUDGED["19"][0], "runtime": "fast"}]},
            "problem 19: runtime must be a number, got 'fast'",
        ),
    ],
)
def test_a_results_file_that_cannot_be_read_is_named(tmp_path, results, why):
    code, said = analysed(tmp_path, 1, results)
    assert (2, True) == (
        code,
        said.startswith(f"error: runs/one/eval_results.json: not a results file: {why}"),
    )


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("{}", "not a results file: no 'averages'"),
        ("", "not strict JSON: Expecting value"),
        ('{"metadata": {}, "averages": {"avg_pass@1": "all"}}', "not a results file: could not convert"),
    ],
)
def test_a_file_of_pass_at_k_that_cannot_be_read_is_named(tmp_path, content, why):
    code, said = analysed(tmp_path, 1, JUDGED, content)
    assert (2, True) == (code, said.startswith(f"error: runs/one/pass_at_k_results.json: {why}"))


def test_a_run_is_held_against_no_times_of_another_gpu(tmp_path, repository, monkeypatch, capsys):
    item = {**JUDGED["19"][0], "metadata": {"hardware": "NVIDIA H200", "device": "cuda:0"}}
    analysed(tmp_path, 1, {"19": [item]})
    monkeypatch.chdir(tmp_path)
    baseline = repository / "baselines/H100.json"
    options = ["run_name=one", "level=1", "hardware=H100", "baseline=eager", f"baseline_file={baseline}"]
    assert 2 == benchmark_eval_analysis.main(options)
    said = f"error: {baseline}: times of H100, but one was measured on H200; kbl baseline measures there\n"
    assert ("", said) == capsys.readouterr()[:]


def test_a_timing_file_takes_no_times_in_another_precision(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "results/timing/box/baseline_time_torch.json"
    path.parent.mkdir(parents=True)
    path.write_text(before := json.dumps({"level1": {"19_ReLU.py": {"mean": 1.0, "precision": "bf16"}}}))
    assert 2 == generate_baseline_time.main(["hardware_name=box", "levels=[1]", "device=cpu"])
    said = "error: results/timing/box/baseline_time_torch.json: holds times in bf16, not fp32"
    assert (True, before) == (capsys.readouterr().err.startswith(said), path.read_text())


def test_one_kernel_is_checked_against_a_reference_of_one_s_own(tmp_path, repository):
    reference = "import torch\n\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x * 2\n\n\n"
    reference += (
        "def get_inputs():\n    return [torch.rand(64, 64)]\n\n\ndef get_init_inputs():\n    return []\n"
    )
    (tmp_path / "reference.py").write_text(reference)
    kernel = reference.partition("def get_inputs")[0].replace("Model", "ModelNew")
    (tmp_path / "right.py").write_text(kernel)
    (tmp_path / "wrong.py").write_text(kernel.replace("x * 2", "x * 3"))
    options = ["ref_origin=local", "ref_arch_src_path=reference.py", "device=cpu", "num_correct_trials=2"]
    options.append("measure_performance=False")
    right = script(repository, tmp_path, "run_and_check", *options, "kernel_src_path=right.py")
    wrong = script(repository, tmp_path, "run_and_check", *options, "kernel_src_path=wrong.py")
    assert (0, True) == (right.returncode, "status: correct" in right.stdout), right.stdout + right.stderr
    assert (1, True) == (wrong.returncode, "status: mismatch" in wrong.stdout), wrong.stdout + wrong.stderr


def test_a_kernel_that_is_too_deep_to_be_looked_at_gets_its_verdict(tmp_path):
    (tmp_path / "deep.py").write_text(f"x = {'-' * 20_000}1\nclass ModelNew: ...\n")
    asked = ("ref_origin=kernelbench", "level=1", "problem_id=19", "device=cpu", "kernel_src_path=deep.py")
    code, said, _ = here(run_and_check.main, tmp_path, *asked)
    assert (1, True) == (code, said.startswith("status: compile_error\nNestedTooDeeply: ")), said


@pytest.mark.parametrize("analysis", ['{"run_name": "nowhere", "level": 1}', "[]", "{}"])
def test_an_analysis_of_a_run_that_is_not_there_reaches_no_board(tmp_path, analysis):
    (tmp_path / "a.json").write_text(analysis)
    (tmp_path / "e.json").write_text(
        '{"metadata": {"display_name": "E"}, "kernels": {"level_1_problem_1_sample_0": "x"}}'
    )
    levels = ("--level1", "a.json", "--level2", "a.json", "--level3", "a.json")
    code, _, told = here(update_leaderboard.main, tmp_path, *levels, "--submission", "e.json")
    assert (2, True) == (code, told.startswith("error: a.json: names the run ")), told


def test_runs_of_two_boards_or_of_other_hardware_become_no_result():
    cpu = ResultFile(
        entry="run",
        submission_sha256="0" * 64,
        gpu="CPU",
        sizes="reduced",
        profile="ranked",
        evaluator_version="1",
        started_at="2026-11-01T00:00:00Z",
        finished_at="2026-11-02T00:00:00Z",
        environments={},
        rows=(),
    )
    later = dataclasses.replace(cpu, started_at="2026-11-03T00:00:00Z", finished_at="2026-11-04T00:00:00Z")
    submission = parse(
        b'{"metadata": {"display_name": "E"}, "kernels": {"level_1_problem_1_sample_0": "x"}}', "e.json"
    )
    whole = update_leaderboard.combine([later, cpu], submission, "CPU")

    assert ("e", submission.sha256) == (whole.entry, whole.submission_sha256)
    assert (cpu.started_at, later.finished_at) == (whole.started_at, whole.finished_at)
    with pytest.raises(StoreError, match="judged on different boards: CPU-reduced, H200-reduced"):
        update_leaderboard.combine([cpu, dataclasses.replace(cpu, gpu="H200")], submission, "CPU")
    with pytest.raises(StoreError, match="hardware=H100, and the runs were judged on CPU"):
        update_leaderboard.combine([cpu, later], submission, "H100")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    level: int
    name: str = "x"
    subset: tuple[int | None, int | None] = (None, None)
    values: list[int] = dataclasses.field(default_factory=list)
    loud: bool = False
    rate: float = 0.5
    maybe: int | None = None


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (
            ["level=1", "name=12", "subset=(1,10)", "values=[1,5]"],
            Options(level=1, name="12", subset=(1, 10), values=[1, 5]),
        ),
        (["--level", "2", "--loud", "--rate", "1"], Options(level=2, loud=True, rate=1.0)),
        (["--level=3", "loud=true", "values=7", "maybe=None"], Options(level=3, loud=True, values=[7])),
        (["level=1", "subset=(None,None)", "maybe=4"], Options(level=1, maybe=4)),
    ],
)
def test_options_are_read_as_kernelbench_s_users_write_them(arguments, found):
    assert found == read_options(Options, arguments)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "required: level=…"),
        (["level=one"], "level must be int, got 'one'"),
        (["level=1", "lvel=2"], "unknown option lvel; known are level, name"),
        (["1"], "must look like key=value"),
        (["level=1", "--rate"], "--rate needs a value"),
    ],
)
def test_a_wrong_option_is_named(arguments, said):
    with pytest.raises(OptionError, match=re.escape(said)):
        read_options(Options, arguments)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["problem_id=190", "kernel_src_path=kernel.py"], "error: level 1 has no problem 190 under "),
        (
            ["problem_id=19", "kernel_src_path=nope.py"],
            "error: nope.py: there is no such file; check the path",
        ),
    ],
)
def test_a_file_or_problem_that_is_not_there_is_named_in_words(tmp_path, options, said):
    (tmp_path / "kernel.py").write_text("class ModelNew: ...")
    asked = ("ref_origin=kernelbench", "level=1", "device=cpu", "check_kernel=False", *options)
    code, _, told = here(run_and_check.main, tmp_path, *asked)
    assert (2, True) == (code, told.startswith(said)), told


@pytest.mark.parametrize("asked", ["--help", "-h"])
def test_a_script_that_is_asked_for_help_names_its_options_and_their_defaults(tmp_path, asked):
    code, said, told = here(generate_baseline_time.main, tmp_path, "levels=[1]", asked)
    assert (0, "") == (code, told)
    assert {"  hardware_name=…", "  levels=[1, 2, 3]", "  problems_dir=None"} <= set(said.splitlines())


@pytest.mark.parametrize(("word", "code"), [("--help", 0), ("--out", 2), ("elsewhere", 2)])
def test_the_baseline_entries_are_not_written_over_by_who_asks_for_something_else(
    tmp_path, repository, word, code
):
    (tmp_path / "submissions").mkdir()
    done = script(repository, tmp_path, "make_baseline_entries", word)
    assert (code, True) == (done.returncode, "usage: " in done.stdout + done.stderr)
    assert [] == list((tmp_path / "submissions").iterdir())


@pytest.mark.timeout(300)
def test_one_sample_is_drawn_and_judged_by_one_command(tmp_path, repository):
    with serving(CannedModel(copy_of_the_reference)) as url:
        done = script(
            *(repository, tmp_path, "generate_and_eval_single_sample", "dataset_src=local", "level=1"),
            *("problem_id=19", f"base_url={url}", "model_name=canned", "prompt_option=zero_shot"),
            *("check_kernel=False", "log=True", "device=cpu"),
        )
    kernel = "runs/single_samples/level_1_problem_19_sample_0_kernel.py"
    assert f"kernel: {kernel}" in done.stdout, done.stderr
    assert "ModelNew" in (tmp_path / kernel).read_text()
    assert re.search(r"^status: (correct|quarantined|infra_error)$", done.stdout, re.MULTILINE), done.stdout
    assert done.returncode == (0 if "status: correct" in done.stdout else 1)


@pytest.mark.timeout(300)
def test_a_sample_is_judged_in_the_precision_that_it_was_asked_for(tmp_path, repository):
    telling = "class ModelNew(__import__('torch').nn.Module):\n    def forward(self, x):\n        raise TypeError(x.dtype)\n"
    with serving(CannedModel(lambda *_: telling)) as url:
        done = script(
            *(repository, tmp_path, "generate_and_eval_single_sample", "dataset_src=local", "level=1"),
            *("problem_id=19", f"base_url={url}", "model_name=canned", "prompt_option=zero_shot"),
            *("check_kernel=False", "log_prompt=True", "device=cpu", "backend=tilelang"),
        )
    [prompt] = tmp_path.rglob("*_prompt.txt")
    assert (1, True) == (done.returncode, "float16" in prompt.read_text()), done.stderr
    assert "TypeError: torch.float16" in done.stdout, done.stdout


@pytest.mark.timeout(300)
def test_builds_go_ahead_with_so_many_workers_into_the_folder_that_is_named(tmp_path, repository):
    folder = tmp_path / "runs/compiled"
    folder.mkdir(parents=True)
    source = f"{TINY}\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x.clamp(min=0)\n"
    (folder / "level_1_problem_19_sample_0_kernel.py").write_text(source)
    options = ("dataset_src=local", "level=1", "run_name=compiled", "device=cpu", "measure_performance=False")
    ahead = ("build_cache=True", "num_cpu_workers=1", "kernel_eval_build_dir=cache")

    done = script(repository, tmp_path, "eval_from_generations", *options, *ahead)

    assert 0 == done.returncode, done.stderr
    table = dict(zip(*(line.split() for line in _rows(done.stderr)), strict=True))
    assert ("1", "1") == (table["kernels"], table["built"])
    [built] = (tmp_path / "cache").rglob("build.json")
    assert "built" == json.loads(built.read_text())["status"]
    [row] = json.loads((folder / "eval_results.json").read_text())["19"]
    assert (True, True) == (row["compiled"], row["correctness"])


def _rows(said):
    """The table's head and its one row, with single words for columns."""
    words = {
        "from cache": "cached",
        "need none": "none",
        "not known": "unknown",
        "s a build": "each",
        "CPU s": "spent",
    }
    lines = [line for line in said.splitlines() if line.startswith(("entry", "compiled "))]
    for name, word in words.items():
        lines[0] = lines[0].replace(name, word)
    return lines
