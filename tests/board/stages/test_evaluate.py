"""Evaluations as a user runs them: `kbl evaluate` in a process of its own, with an engine that is quick."""

import dataclasses
import json
import os
import random
import shlex
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from fake_engine import GPU, FakeEngine
from kernel_evaluator.problems.jobs import Settings, Verdict, unmeasured_row
from kernel_evaluator.problems.problem_set import ProblemSet
from kernel_evaluator.records.rows import Failure, Status

from leaderboard.files import store, submission
from leaderboard.files.workfile import WorkFile
from leaderboard.stages.checked import AnySet, checked_problem
from leaderboard.stages.engines import EvaluationError
from leaderboard.stages.evaluate import Evaluation, evaluate, load_problems
from leaderboard.stages.record import read_work_file

PROGRAM = Path(__file__).parents[2] / "fake_engine.py"
OPTIONS = ("evaluate", "--engine", "fake", "--device", "cuda")
PROBLEMS = 60
OWN_PROBLEM = "class Model: ...\ndef get_inputs(): ...\ndef get_init_inputs(): ...\n"


def command(*arguments):
    return [sys.executable, str(PROGRAM), *OPTIONS, *arguments]


@pytest.fixture
def kbl_evaluate(kbl_forked):
    """The command with an engine that is quick, in a folder."""

    def run(folder, *arguments, delay_s=0.0, **environment):
        env = {**os.environ, "FAKE_DELAY_S": str(delay_s), "CI": "", **environment}
        return kbl_forked(*OPTIONS, *arguments, cwd=folder, env=env)

    return run


def write_submission(folder, name="mine", problems=PROBLEMS, **kernels):
    body = "# speedup 2.0\nclass ModelNew:\n    pass\n"
    sources = {f"level_1_problem_{i}_sample_0": body for i in range(1, problems + 1)}
    path = folder / f"{name}.json"
    path.write_text(json.dumps({"metadata": {"display_name": name}, "kernels": {**sources, **kernels}}))
    return path


def work_file(folder, board="H200"):
    return store.read_result(folder / "build" / "evaluations" / board / "mine.json")


def test_a_kernel_that_no_engine_can_read_fails_alone(kbl_evaluate, tmp_path):
    deep = "# speedup 2.0\nclass ModelNew:\n    x = 1" + "+1" * 600
    write_submission(tmp_path, problems=2, level_1_problem_3_sample_0=deep)
    ended = kbl_evaluate(tmp_path, "mine.json")
    rows = {str(row.key): row for row in work_file(tmp_path).rows}
    assert ended.returncode == 0, ended.stderr
    assert ["correct", "correct", "compile_error"] == [row.status for row in rows.values()]
    assert "more than 250 levels deep" in rows["level_1_problem_3_sample_0"].failure.message
    read_work_file(tmp_path / "build/evaluations/H200/mine.json")


def test_every_kernel_gets_a_row_and_the_next_command_is_named(kbl_evaluate, tmp_path):
    write_submission(tmp_path)
    ended = kbl_evaluate(tmp_path, "mine.json")
    result = work_file(tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert "kbl record build/evaluations/H200/mine.json" in ended.stdout
    assert len(result.rows) == PROBLEMS
    assert (result.board, result.gpu_seconds, result.cpu_seconds) == ("H200", PROBLEMS, 2 * PROBLEMS)


@pytest.mark.parametrize(("options", "labels"), [((), ()), (("--census",), ("custom",))])
def test_a_census_is_taken_where_it_is_asked_for(kbl_evaluate, tmp_path, options, labels):
    write_submission(tmp_path, problems=1)
    ended = kbl_evaluate(tmp_path, "mine.json", *options)
    assert ended.returncode == 0, ended.stderr
    assert [labels] == [row.labels for row in work_file(tmp_path).rows]


def test_what_failed_and_what_is_in_quarantine_is_shown_with_the_command_that_looks_again(
    kbl_evaluate, tmp_path
):
    odd = {"level_1_problem_2_sample_0": "# status quarantined\nclass ModelNew: ...\n"}
    write_submission(tmp_path, problems=1, **odd)
    said = kbl_evaluate(tmp_path, "mine.json").stdout.splitlines()
    path = "build/evaluations/H200/mine.json"
    assert f"why: kbl replay {path} level_1_problem_2_sample_0 --submission mine.json" in said
    assert "    kbl evaluate mine.json --again --only 1/2" in said


def test_the_commands_that_are_named_hold_for_problems_of_one_s_own_and_for_odd_names(kbl_evaluate, tmp_path):
    own = tmp_path / "own problems"
    (own / "level1").mkdir(parents=True)
    (own / "level1/2_Own.py").write_text(ProblemSet().load(1, 2).source + "# mine\n")
    odd = {"level_1_problem_2_sample_0": "# status quarantined\nclass ModelNew: ...\n"}
    (tmp_path / "my files").mkdir()
    write_submission(tmp_path / "my files", problems=0, **odd)
    options = ("--problems", "own problems", "--work", "work")
    said = kbl_evaluate(tmp_path, "my files/mine.json", *options).stdout.splitlines()
    why = "why: kbl replay work/H200-own-problems/mine.json level_1_problem_2_sample_0 --submission 'my files/mine.json'"
    assert f"{why} --problems 'own problems'" in said
    again = "    kbl evaluate 'my files/mine.json' --again --only 1/2 --problems 'own problems' --work work"
    assert again in said
    assert not [line for line in said if "kbl record" in line], "no board takes rows of other problems"


def test_killed_at_any_moment_the_same_command_keeps_what_was_finished_and_does_the_rest(
    kbl_evaluate, tmp_path
):
    write_submission(tmp_path)
    path = tmp_path / "build/evaluations/H200/mine.json"
    env = {**os.environ, "FAKE_DELAY_S": "0.2"}
    finished = 0
    for wait_s in (random.uniform(0.3, 1.0), random.uniform(0.3, 1.0)):
        process = subprocess.Popen(
            command("mine.json"),
            cwd=tmp_path,
            env=env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while not path.exists() or len(store.read_result(path).rows) <= finished:
            assert process.poll() is None
            time.sleep(0.02)
        time.sleep(wait_s)
        process.send_signal(signal.SIGKILL)
        process.wait()
        kept = store.read_result(path)
        assert finished < len(kept.rows) < PROBLEMS
        finished = len(kept.rows)
    started_at = store.read_result(path).started_at
    ended = kbl_evaluate(tmp_path, "mine.json")
    assert f"{PROBLEMS - finished} judged now, {finished} still good" in ended.stdout
    assert len(work_file(tmp_path).rows) == PROBLEMS
    assert work_file(tmp_path).started_at == started_at
    assert [p.name for p in path.parent.glob("*.json")] == ["mine.json"]


def test_kernels_are_judged_where_every_standard_stream_is_closed(tmp_path):
    write_submission(tmp_path, problems=1)
    verb = f"{shlex.join(command('mine.json'))} <&- >&- 2>&-"
    done = subprocess.run(["/bin/sh", "-c", verb], cwd=tmp_path, check=False)
    assert (0, ["correct"]) == (done.returncode, [row.status for row in work_file(tmp_path).rows])


def test_an_interruption_ends_a_hanging_kernel_at_once_and_keeps_the_rest(tmp_path):
    # The first needs no timing: on a busy machine its verdict would be put off behind the one that hangs.
    wrong = "import torch\nclass ModelNew(torch.nn.Module):\n    forward = staticmethod(torch.zeros_like)\n"
    hanging = wrong.replace("staticmethod(torch.zeros_like)", "lambda self, x: [None for _ in iter(int, 1)]")
    kernels = {"level_1_problem_19_sample_0": wrong, "level_1_problem_19_sample_1": hanging}
    path = write_submission(tmp_path, problems=0, **kernels)
    arguments = ["evaluate", str(path), "--device", "cpu", "--work", "work", "--timeout", "600"]
    process = subprocess.Popen(
        [sys.executable, "-c", "from leaderboard.cli import app; app()", *arguments],
        cwd=tmp_path,
        env={**os.environ, "CI": ""},
        start_new_session=True,
        stderr=subprocess.PIPE,
        text=True,
    )
    work = tmp_path / "work/CPU-reduced/mine.json"
    patience = time.monotonic() + 120
    while not work.exists() or not store.read_result(work).rows:
        if process.poll() is not None or time.monotonic() > patience:
            process.kill()
            pytest.fail(process.communicate()[1])
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    said = process.communicate(timeout=120)[1]
    assert process.returncode == 130
    assert said.splitlines()[-1].startswith("interrupted; what is finished is kept")
    assert [row.status for row in store.read_result(work).rows] == ["mismatch"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--level", "9"], "--level must be 1 to 4, got 9"),
        (["--sample", "100"], "--sample must be 0 to 99, got 100"),
        (["--gpus", "0", "--device", "cpu"], "--gpus 0 and --device cpu exclude each other"),
        (["--timeout", "-5"], "--timeout"),
    ],
)
def test_an_option_out_of_range_is_named(kbl_evaluate, tmp_path, arguments, message):
    write_submission(tmp_path, problems=1)
    ended = kbl_evaluate(tmp_path, "mine.json", *arguments, COLUMNS="200")
    assert ended.returncode == 2
    assert message in ended.stderr
    assert not (tmp_path / "build").exists()


def test_a_choice_that_picks_no_kernel_is_no_evaluation(kbl_evaluate, tmp_path):
    write_submission(tmp_path, problems=1)
    ended = kbl_evaluate(tmp_path, "mine.json", "--only", "2/40")
    assert ended.returncode == 2
    assert "pick none of its kernels: level_1_problem_1_sample_0\n" in ended.stderr
    assert not (tmp_path / "build").exists()


def test_a_second_writer_is_turned_away(kbl_evaluate, tmp_path):
    write_submission(tmp_path, problems=3)
    path = tmp_path / "build/evaluations/H200/mine.json"
    with store.locked(path):
        ended = kbl_evaluate(tmp_path, "mine.json")
    assert ended.returncode == 2
    assert "another process is writing it" in ended.stderr
    assert not path.exists()


def test_two_files_of_one_entry_are_not_written_over_each_other(kbl_evaluate, tmp_path):
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        write_submission(tmp_path / folder, problems=1)
    both = kbl_evaluate(tmp_path, "one/mine.json", "two/mine.json")
    assert both.returncode == 2
    assert "one/mine.json and two/mine.json are both the entry mine" in both.stderr
    assert not (tmp_path / "build").exists()
    assert 0 == kbl_evaluate(tmp_path, "one/mine.json", "one/mine.json").returncode


def test_a_broken_file_says_what_is_wrong_and_the_others_go_on(kbl_evaluate, tmp_path):
    (tmp_path / "broken.json").write_text('{"metadata": {}, "kernels": {}}')
    write_submission(tmp_path, problems=2)
    ended = kbl_evaluate(tmp_path, "broken.json", "missing.json", "mine.json")
    assert ended.returncode == 2
    assert "display_name" in ended.stderr
    assert "missing.json" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert len(work_file(tmp_path).rows) == 2


def test_an_infrastructure_error_fails_the_command_and_is_tried_again_alone(kbl_evaluate, tmp_path):
    body = "# status infra_error\nclass ModelNew:\n    pass\n"
    write_submission(tmp_path, problems=3, level_1_problem_9_sample_0=body)
    first = kbl_evaluate(tmp_path, "mine.json")
    again = kbl_evaluate(tmp_path, "mine.json")
    assert (first.returncode, again.returncode) == (1, 1)
    assert "1 judged now, 3 still good" in again.stdout


def test_what_is_named_is_judged_once_more_whatever_its_verdict_was(kbl_evaluate, tmp_path):
    write_submission(tmp_path, problems=3)
    kbl_evaluate(tmp_path, "mine.json")
    again = kbl_evaluate(tmp_path, "mine.json", "--again", "--only", "1/2")
    assert (0, True) == (again.returncode, "1 judged now, 0 still good; in all 3 " in again.stdout), (
        again.stdout
    )


def test_only_what_is_chosen_is_judged(kbl_evaluate, tmp_path):
    write_submission(tmp_path, problems=5)
    kbl_evaluate(tmp_path, "mine.json", "--only", "1/2,1/4")
    assert [row.key.problem_id for row in work_file(tmp_path).rows] == [2, 4]


def test_another_profile_and_other_sizes_keep_files_of_their_own(kbl_evaluate, tmp_path):
    write_submission(tmp_path, problems=1)
    kbl_evaluate(tmp_path, "mine.json", "--profile", "compat")
    kbl_evaluate(tmp_path, "mine.json", "--sizes", "reduced")
    assert work_file(tmp_path, board="H200-compat").profile == "compat"
    assert work_file(tmp_path, board="H200-reduced").sizes == "reduced"


def test_a_kernel_whose_problem_is_missing_is_named_and_the_others_are_judged(kbl_evaluate, tmp_path):
    level = tmp_path / "set" / "level1"
    level.mkdir(parents=True)
    (level / "1_Only.py").write_text(OWN_PROBLEM)
    write_submission(tmp_path, problems=2)
    ended = kbl_evaluate(tmp_path, "mine.json", "--problems", "set")
    assert ended.returncode == 1
    assert "level_1_problem_2_sample_0: the problem set has no level 1 problem 2" in ended.stderr
    assert len(work_file(tmp_path, board="H200-own-problems").rows) == 1


def test_a_problem_that_cannot_be_one_is_named_before_anything_is_judged(kbl_evaluate, tmp_path):
    level = tmp_path / "set" / "level1"
    level.mkdir(parents=True)
    (level / "1_Windows.py").write_bytes(b"\xef\xbb\xbf" + OWN_PROBLEM.replace("\n", "\r\n").encode())
    problem_set = AnySet(tmp_path / "set")
    compile(checked_problem(problem_set.load(1, 1)).source, "as what judges does", "exec")
    for content, said in (
        (b"def f(:", "1_Windows.py: a problem must be Python: invalid syntax"),
        (b"class Model: ...", "1_Windows.py: a problem must define .*; missing: get_inputs, get_init_inputs"),
        (b"# \xe9", "level1/1_Windows.py: must be UTF-8"),
    ):
        (level / "1_Windows.py").write_bytes(content)
        with pytest.raises(ValueError, match=said):
            checked_problem(problem_set.load(1, 1))
    write_submission(tmp_path, problems=1)
    ended = kbl_evaluate(tmp_path, "mine.json", "--problems", "set")
    assert (2, True) == (
        ended.returncode,
        ended.stderr.startswith("error: mine.json: set/level1/1_Windows.py: must"),
    )


def test_problems_of_ones_own_cost_no_verdict_on_the_boards(kbl_evaluate, tmp_path):
    write_submission(tmp_path, problems=2)
    kbl_evaluate(tmp_path, "mine.json")
    before = work_file(tmp_path)
    level = tmp_path / "set" / "level1"
    level.mkdir(parents=True)
    for at in (1, 2):
        (level / f"{at}_Only.py").write_text(OWN_PROBLEM)
    assert "2 judged now, 0 still good" in kbl_evaluate(tmp_path, "mine.json", "--problems", "set").stdout
    assert work_file(tmp_path) == before
    assert "0 judged now, 2 still good" in kbl_evaluate(tmp_path, "mine.json", "--problems", "set").stdout


def test_recorded_rows_are_reused_without_a_work_file(kbl_evaluate, tmp_path):
    write_submission(tmp_path, problems=3)
    kbl_evaluate(tmp_path, "mine.json")
    path = store.result_path(tmp_path / "build/evaluations", "H200", "mine")
    recorded = store.recorded_path(tmp_path / "data", "H200", "mine")
    recorded.parent.mkdir(parents=True)
    path.rename(recorded)
    assert "0 judged now, 3 still good" in kbl_evaluate(tmp_path, "mine.json").stdout
    assert len(work_file(tmp_path).rows) == 3
    assert "3 judged now, 0 still good" in kbl_evaluate(tmp_path, "mine.json", "--profile", "compat").stdout


def test_progress_is_a_line_a_kernel_without_a_terminal_and_nothing_in_ci(kbl_evaluate, tmp_path):
    write_submission(tmp_path, problems=2)
    lines = kbl_evaluate(tmp_path, "mine.json").stderr.splitlines()
    assert lines[0] == "[1/2] 1/1 correct 2x (1.96-2.04)"
    assert [line.split()[0] for line in lines] == ["[1/2]", "[2/2]", "[again]", "[again]"]
    (tmp_path / "build/evaluations/H200/mine.json").unlink()
    assert kbl_evaluate(tmp_path, "mine.json", CI="true").stderr == ""


def test_an_unknown_engine_is_named_with_the_choices(kbl_evaluate, tmp_path):
    write_submission(tmp_path, problems=1)
    ended = kbl_evaluate(tmp_path, "mine.json", "--engine", "cloud")
    assert ended.returncode == 2
    assert "--engine must be one of local, modal, ray, steady, fake, got 'cloud'" in ended.stderr


def evaluation_of(folder, problems, gpu=GPU.gpu):
    loaded = submission.load(write_submission(folder, problems=problems))
    return Evaluation(
        submission=loaded,
        problems=load_problems(ProblemSet(), loaded.kernels, "full"),
        settings=Settings(),
        gpu=gpu,
        work_root=folder / "work",
    )


class Failing(FakeEngine):
    """The kernel of the first problem fails."""

    def __init__(self, status, failure):
        super().__init__(GPU)
        self.status, self.failure = status, failure

    def run(self, jobs, settings):
        for job, verdict in zip(jobs, super().run(jobs, settings), strict=True):
            row = dataclasses.replace(unmeasured_row(job, self.status), failure=self.failure)
            yield dataclasses.replace(verdict, row=row) if job.key.problem_id == 1 else verdict


def test_a_kernel_whose_words_utf8_cannot_hold_costs_no_other_its_row(tmp_path):
    evaluation = evaluation_of(tmp_path, problems=3)
    failure = Failure(name="RuntimeError", message="half \ud800 of a pair", log="\udfff")
    outcome = evaluate(evaluation, Failing(Status.COMPILE_ERROR, failure), lambda row: None)
    odd, *others = store.read_result(outcome.path).rows
    assert ("half ? of a pair", "?") == (odd.failure.message, odd.failure.log)
    assert [True, True] == [row.is_correct for row in others]


def test_what_a_kernel_says_at_length_is_cut_and_keeps_no_row_from_being_recorded(tmp_path):
    evaluation = evaluation_of(tmp_path, problems=3)
    failure = Failure(name="X" * 700, message="m" * 30_000, log=f"begin{'l' * 200_000}end")
    outcome = evaluate(evaluation, Failing(Status.RUNTIME_ERROR, failure), lambda row: None)
    long, *others = read_work_file(outcome.path).rows
    assert (long.failure.name[:9], long.failure.name[-1]) == ("XXXXXXXXX", "…")
    assert long.failure.log.endswith("lend")
    assert [True, True] == [row.is_correct for row in others]


def test_a_device_of_another_model_than_the_boards_stops_the_evaluation(tmp_path):
    evaluation = evaluation_of(tmp_path, problems=1, gpu="H100")
    with pytest.raises(EvaluationError, match="ran on 'H200', this evaluation is for 'H100'"):
        evaluate(evaluation, FakeEngine(GPU), lambda row: None)
    assert store.read_result(evaluation.path).rows == ()


class OneByOne(FakeEngine):
    """Judges a kernel only once the row of the one before is on disk."""

    def __init__(self, path):
        super().__init__()
        self.path = path

    def run(self, jobs, settings):
        for given, verdict in enumerate(super().run(jobs, settings)):
            patience = time.monotonic() + 30
            while len(store.read_result(self.path).rows) < given:
                assert time.monotonic() < patience, f"row {given} is still not on disk"
                time.sleep(0.01)
            yield verdict


def test_every_row_comes_to_disk_though_the_next_kernel_hangs(tmp_path):
    evaluation = evaluation_of(tmp_path, problems=4)
    evaluate(evaluation, OneByOne(evaluation.path), lambda row: None)
    assert len(store.read_result(evaluation.path).rows) == 4


def test_a_late_write_that_fails_is_made_up_for_by_the_next(tmp_path, monkeypatch):
    evaluation, unheard = evaluation_of(tmp_path, problems=1), []
    monkeypatch.setattr(threading, "excepthook", unheard.append)
    [verdict] = FakeEngine().run(evaluation.plan([]).jobs, evaluation.settings)
    with WorkFile(evaluation.path, evaluation.blank) as work:
        work.add(verdict)
        evaluation.path.unlink()
        evaluation.path.mkdir()  # so that nothing can be written, as on a full disk
        work._timer.join()
        evaluation.path.rmdir()
    assert ([], 1) == (unheard, len(store.read_result(evaluation.path).rows))


def test_a_result_began_with_its_first_row_and_never_after_it_ended(tmp_path):
    evaluation = evaluation_of(tmp_path, problems=1)
    outcome = evaluate(evaluation, FakeEngine(), lambda row: None)
    first, later = (
        dataclasses.replace(outcome.result, started_at=f"2026-01-0{day}T00:00:00Z") for day in (1, 2)
    )
    now = dataclasses.replace(evaluation.blank, started_at="2026-01-03T00:00:00Z")
    work = WorkFile(evaluation.path, now)
    work.keep(outcome.result.rows, [later, first])
    assert first.started_at == work.result().started_at
    row = dataclasses.replace(outcome.result.rows[0], finished_at="2026-01-03T00:00:01Z")
    work.add(Verdict(row=row, environment=outcome.result.environments[row.environment]))
    assert now.started_at == work.result().started_at, "of what began before, all is judged anew"
    ahead = WorkFile(
        evaluation.path, dataclasses.replace(evaluation.blank, started_at="2999-01-01T00:00:00Z")
    )
    assert ahead.result().started_at == ahead.result().finished_at, "the clock was set back"


def test_an_interruption_right_after_a_row_keeps_it(tmp_path):
    def interrupt(row):
        if row.key.problem_id == 3:
            raise KeyboardInterrupt

    evaluation = evaluation_of(tmp_path, problems=5)
    with pytest.raises(KeyboardInterrupt):
        evaluate(evaluation, FakeEngine(), interrupt)
    assert [1, 2, 3] == [row.key.problem_id for row in store.read_result(evaluation.path).rows]


def test_figures_that_json_has_no_word_for_do_not_break_the_file(kbl_evaluate, tmp_path):
    write_submission(
        tmp_path, problems=1, level_1_problem_1_sample_0="# status mismatch\nclass ModelNew: ...\n"
    )
    kbl_evaluate(tmp_path, "mine.json")
    result = work_file(tmp_path)
    row = dataclasses.replace(result.rows[0], worst_error=float("inf"), evidence={"got": [float("nan")]})
    path = tmp_path / "odd.json"
    store.write_atomically(path, store.dump_result(dataclasses.replace(result, rows=(row,))))
    back = store.read_result(path).rows[0]
    assert (back.worst_error, back.evidence) == (None, {"got": ["nan"]})
