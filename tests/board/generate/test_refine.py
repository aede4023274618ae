"""Several turns: the evaluator's verdict goes back to the model, the best attempt is handed in, a kill loses nothing."""

import pytest
from canned_model import GOOD, CannedModel, serving
from fake_engine import FakeEngine, rows_of
from kernel_evaluator.problems.jobs import Job
from kernel_evaluator.problems.problem_set import ProblemSet
from kernel_evaluator.records.keys import KernelKey
from kernel_evaluator.records.rows import Failure, Row, Status

from leaderboard.generate.request import GenerationRequest, open_judge
from leaderboard.generate.turns import TurnFile, feedback
from leaderboard.stages import engines

KERNEL = "class ModelNew: ...\n"
ATTEMPTS = ("# status mismatch", "# speedup 3.0", "# speedup 2.0")


def attempt_of_its_turn(messages, number):
    turn = sum(message["role"] == "assistant" for message in messages)
    return f"{ATTEMPTS[turn]}\n{KERNEL}"


def generation(tmp_path, url, judge=rows_of, **more):
    only = {"only": "1/1,1/2", "check": False, "turns": 3, **more}
    return GenerationRequest(run_name="run", model="m", base_url=url, runs=tmp_path, **only).open(judge)


def test_an_attempt_that_no_engine_can_read_has_a_verdict_too(monkeypatch):
    monkeypatch.setitem(engines.ENGINES, "fake", lambda *_: engines.Place(engine=FakeEngine(), gpu="CPU"))
    jobs = [
        Job(key=KernelKey(1, 19, sample), source=source, problem=ProblemSet().load(1, 19))
        for sample, source in enumerate((f"x = 1{'+1' * 600}\n{KERNEL}", KERNEL))
    ]
    rows = open_judge("fake", "cpu", "fp32")(jobs)

    assert [Status.COMPILE_ERROR, Status.CORRECT] == [row.status for row in rows]


def test_the_fastest_correct_attempt_is_handed_in(tmp_path):
    server = CannedModel(attempt_of_its_turn)
    with serving(server) as url:
        outcome = generation(tmp_path, url).draw(lambda key: None)
    assert (2, 6) == (outcome.drawn, len(server.requests))
    kernel = tmp_path / "run" / "level_1_problem_2_sample_0_kernel.py"
    assert f"# speedup 3.0\n{KERNEL}" == kernel.read_text()
    turns = TurnFile(folder=tmp_path / "run", key=KernelKey(1, 2)).read()
    assert [Status.MISMATCH, Status.CORRECT, Status.CORRECT] == [turn.row.status for turn in turns]


def test_the_model_is_told_what_the_evaluator_found(tmp_path):
    server = CannedModel(attempt_of_its_turn)
    with serving(server) as url:
        generation(tmp_path, url).draw(lambda key: None)
    last = server.requests[-1]["messages"]
    assert ["user", "assistant", "user", "assistant", "user"] == [message["role"] for message in last]
    assert "# status mismatch" in last[1]["content"]
    assert "differs at [0, 0]" in last[2]["content"]
    assert "expected: 1.0" in last[2]["content"]
    assert "speedup of 3.000" in last[4]["content"]


def test_a_run_stopped_between_turns_goes_on_where_it_was(tmp_path):
    def failing(jobs):
        for at, row in enumerate(rows_of(jobs)):
            if at:
                raise OSError("the machine went away")
            yield row

    server = CannedModel(attempt_of_its_turn)
    with serving(server) as url:
        with pytest.raises(OSError, match="went away"):
            generation(tmp_path, url, failing).draw(lambda key: None)
        assert 2 == len(server.requests)
        assert 2 == generation(tmp_path, url).draw(lambda key: None).drawn
    assert 6 == len(server.requests)


def test_an_attempt_that_the_evaluator_could_not_judge_is_judged_by_the_next_run(tmp_path):
    def broken(jobs):
        digests = dict.fromkeys(("kernel_sha256", "problem_sha256", "evaluator_sha256"), "x")
        lost = [job.key for job in jobs if job.key.problem_id == 1]
        rows = rows_of([job for job in jobs if job.key not in lost])
        return [*rows, *(Row(key=key, status=Status.INFRA_ERROR, **digests) for key in lost)]

    server = CannedModel(attempt_of_its_turn)
    with serving(server) as url:
        outcome = generation(tmp_path, url, broken).draw(lambda key: None)
        assert [KernelKey(1, 1)] == list(outcome.failed)
        assert {} == dict(generation(tmp_path, url).draw(lambda key: None).failed)
    assert 6 == len(server.requests)


@pytest.mark.parametrize("end", ["no_block", "400"])
def test_a_sample_that_gives_no_further_kernel_keeps_its_best(tmp_path, end):
    server = CannedModel(attempt_of_its_turn, (GOOD, GOOD, GOOD, GOOD, end))
    with serving(server) as url:
        outcome = generation(tmp_path, url, regenerations=0).draw(lambda key: None)
    assert {} == dict(outcome.failed)
    kernels = sorted(path.read_text() for path in (tmp_path / "run").glob("*_kernel.py"))
    assert [f"# speedup 3.0\n{KERNEL}"] * 2 == kernels


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (Status.COMPILE_ERROR, "could not be built"),
        (Status.RUNTIME_ERROR, "failed while it ran"),
        (Status.TIMEOUT, "did not finish"),
        (Status.OUT_OF_MEMORY, "ran out of memory"),
        (Status.FRAGILE, "was not accepted"),
    ],
)
def test_every_end_has_its_words_and_the_log(status, said):
    text = feedback(failed(status))
    assert said in text
    assert "Oops: broken" in text
    assert "the last line" in text
    assert "{" not in text


def test_a_model_is_not_told_to_mend_what_the_machinery_failed_at():
    text = feedback(failed(Status.INFRA_ERROR))
    assert "says nothing of the kernel" in text
    assert "Oops" not in text


def failed(status):
    failure = Failure(name="Oops", message="broken", log="the last line")
    digests = dict.fromkeys(("kernel_sha256", "problem_sha256", "evaluator_sha256"), "x")
    return Row(key=KernelKey(1, 1), status=status, failure=failure, evidence={"seen": "it"}, **digests)
