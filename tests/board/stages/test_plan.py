"""What is left to judge, given what was judged before."""

import dataclasses
import json

import pytest
from fake_engine import GPU, FakeEngine
from kernel_evaluator.problems.jobs import Job, Settings
from kernel_evaluator.problems.problem_set import Problem, ProblemSet
from kernel_evaluator.records.keys import KernelKey
from kernel_evaluator.records.rows import Environment, ResultFile
from kernel_evaluator.records.version import evaluator_sha256
from typer.testing import CliRunner

from leaderboard.cli import app
from leaderboard.files import store
from leaderboard.stages.evaluate import load_problems
from leaderboard.stages.plan import Selection, make_plan, parse_problem_list

KEYS = [KernelKey(2, 1), KernelKey(1, 19, 1), KernelKey(1, 19), KernelKey(1, 3)]
KERNELS = {key: f"# speedup 2.0\n# {key}\n" for key in KEYS}
PROBLEMS = {
    (level, i): Problem(level=level, problem_id=i, name=f"{i}_P", source=f"N = {i}\n")
    for level, i in [(1, 3), (1, 19), (2, 1)]
}


def plan(kernels=KERNELS, problems=PROBLEMS, previous=(), evaluator="e1", gpu="H200", selection=None):
    return make_plan(
        kernels,
        problems,
        previous=previous,
        gpu=gpu,
        evaluator_sha256=evaluator,
        selection=selection or Selection(),
    )


def judged(kernels=KERNELS, problems=PROBLEMS, evaluator="e1", environment=GPU):
    jobs = [
        Job(key=key, source=kernels[key], problem=problems[key.level, key.problem_id])
        for key in sorted(kernels)
    ]
    verdicts = FakeEngine(environment, evaluator=evaluator).run(jobs, Settings())
    return ResultFile(
        entry="mine",
        submission_sha256="0" * 64,
        gpu=environment.gpu,
        sizes="full",
        profile="ranked",
        evaluator_version="1",
        started_at="2026-01-01T00:00:00Z",
        finished_at="2026-01-01T00:01:00Z",
        environments={"here": environment},
        rows=tuple(dataclasses.replace(verdict.row, environment="here") for verdict in verdicts),
    )


def keys(jobs):
    return [str(job.key) for job in jobs]


def test_kernels_of_one_problem_follow_each_other():
    assert keys(plan().jobs) == [
        "level_1_problem_3_sample_0",
        "level_1_problem_19_sample_0",
        "level_1_problem_19_sample_1",
        "level_2_problem_1_sample_0",
    ]


def test_nothing_is_left_when_every_row_is_good():
    again = plan(previous=[judged()])
    assert (again.jobs, again.good, len(again.kept)) == ((), 4, 4)


def test_a_changed_kernel_is_judged_again_and_its_old_row_goes():
    changed = {**KERNELS, KernelKey(1, 3): "# speedup 3.0\n"}
    left = plan(kernels=changed, previous=[judged()])
    assert keys(left.jobs) == ["level_1_problem_3_sample_0"]
    assert KernelKey(1, 3) not in {row.key for row in left.kept}


def test_a_changed_problem_is_judged_again():
    changed = {**PROBLEMS, (2, 1): dataclasses.replace(PROBLEMS[2, 1], source="N = 7\n")}
    assert keys(plan(problems=changed, previous=[judged()]).jobs) == ["level_2_problem_1_sample_0"]


def test_another_evaluator_judges_everything_again_and_keeps_the_old_rows_until_then():
    left = plan(previous=[judged()], evaluator="e2")
    assert (len(left.jobs), len(left.kept)) == (4, 4)


def test_rows_of_another_gpu_do_not_count():
    left = plan(previous=[judged()], gpu="H100")
    assert (len(left.jobs), left.kept) == (4, ())


def test_an_infrastructure_error_is_tried_again():
    kernels = {**KERNELS, KernelKey(1, 3): "# status infra_error\n"}
    assert keys(plan(kernels=kernels, previous=[judged(kernels)]).jobs) == ["level_1_problem_3_sample_0"]


def test_a_good_recorded_row_wins_over_a_failed_attempt_in_the_work_file():
    work = judged()
    broken = dataclasses.replace(
        work, rows=tuple(dataclasses.replace(row, evaluator_sha256="old") for row in work.rows)
    )
    assert plan(previous=[broken, judged()]).jobs == ()


def test_of_two_rows_of_other_evaluators_the_work_files_stays():
    left = plan(previous=[judged(evaluator="newer"), judged(evaluator="older")])
    assert {"newer"} == {row.evaluator_sha256 for row in left.kept}


def test_only_the_chosen_kernels_are_planned_and_the_others_keep_their_rows():
    chosen = Selection(problems=parse_problem_list("1/19, 2_1"), samples=frozenset({0}))
    left = plan(selection=chosen, previous=[judged(evaluator="old")])
    assert keys(left.jobs) == ["level_1_problem_19_sample_0", "level_2_problem_1_sample_0"]
    assert len(left.kept) == 4


def test_a_level_or_a_sample_is_chosen_alone():
    assert keys(plan(selection=Selection(levels=frozenset({2}))).jobs) == ["level_2_problem_1_sample_0"]
    assert keys(plan(selection=Selection(samples=frozenset({1}))).jobs) == ["level_1_problem_19_sample_1"]


def test_a_kernel_without_its_problem_is_named_with_what_to_do():
    kernels = {**KERNELS, KernelKey(4, 2): "x"}
    (message,) = plan(kernels=kernels).missing_problems
    assert "level_4_problem_2_sample_0" in message
    assert "--problems" in message
    assert plan(kernels=kernels, selection=Selection(levels=frozenset({1}))).missing_problems == ()


@pytest.mark.parametrize(
    ("text", "rule"),
    [("1-19", "must look like 1/19"), ("1/x", "must look like 1/19"), ("5/1", "level"), ("3/51", "1-50")],
)
def test_a_wrong_problem_list_names_the_rule(text, rule):
    with pytest.raises(ValueError, match=rule):
        parse_problem_list(text)


def test_the_command_takes_recorded_rows_of_the_board_for_done(tmp_path):
    kernels = {KernelKey(1, i): "class ModelNew: ...\n" for i in (19, 20)}
    entry = {"metadata": {"display_name": "x"}, "kernels": {str(key): kernels[key] for key in kernels}}
    (tmp_path / "mine.json").write_text(json.dumps(entry))
    problems = load_problems(ProblemSet(), kernels, "reduced")
    done = {KernelKey(1, 19): kernels.pop(KernelKey(1, 19))}
    on_cpu = judged(done, problems, evaluator_sha256(), Environment(device="CPU", gpu="CPU"))
    recorded = store.dump_result(dataclasses.replace(on_cpu, sizes="reduced"))
    store.write_atomically(store.recorded_path(tmp_path / "data", "CPU-reduced", "mine"), recorded)

    def listed(gpu, *choice):
        folders = ["--data", str(tmp_path / "data"), "--work", str(tmp_path / "work")]
        return CliRunner().invoke(app, ["plan", str(tmp_path / "mine.json"), "--gpu", gpu, *folders, *choice])

    *left, summary = listed("CPU").output.splitlines()
    assert (["level_1_problem_20_sample_0 20_LeakyReLU"], True) == (
        left,
        summary.endswith("1 to judge on CPU-reduced, 1 still good"),
    )
    assert listed("CPU").output == listed("CPU-reduced").output
    assert "2 to judge on H200, 0 still good" in listed("H200").output
    assert "no GPU Z9 is known here" in listed("Z9").output and "no GPU" not in listed("H200").output
    assert "--gpu H200-bf16 is a board for bf16, and the submission is in fp32" in listed("H200-bf16").output
    assert "1 to judge" in listed("CPU", "--only", "1/20").output
    nothing = listed("CPU", "--only", "2/40")
    assert (2, True) == (nothing.exit_code, "pick none of its kernels: level_1_problem_19" in nothing.output)
