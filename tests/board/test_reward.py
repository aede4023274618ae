"""Rewards: what a verdict is worth, and that no cheat is worth more than an honest failure."""

from multiprocessing import get_context

import pytest
from evaluating import SOURCE
from fake_engine import judge as judged
from hypothesis import given
from hypothesis import strategies as st
from kernel_evaluator.problems.jobs import Job
from kernel_evaluator.problems.problem_set import ProblemSet
from kernel_evaluator.records.keys import KernelKey
from kernel_evaluator.records.rows import Status
from own_server import serving

from leaderboard.adapters.tasks import Tasks
from leaderboard.checks.document import MAX_KERNEL_BYTES
from leaderboard.client import JudgeClient
from leaderboard.reward import Shaping, _client, reward, reward_of

PROBLEM = ProblemSet().load(1, 19)
CHEATS = (Status.REJECTED,)
WAITING = (Status.QUARANTINED, Status.INFRA_ERROR)
HONEST = tuple(status for status in Status if status not in (*CHEATS, *WAITING))


def row(first):
    source = f"{first}\nclass ModelNew: ...\n"
    return judged(Job(key=KernelKey(1, 19), source=source, problem=PROBLEM), "0" * 64)


def of(status, shaping=None):
    return reward_of(row(f"# status {status}"), shaping or Shaping())


shapings = st.builds(
    lambda c, f, k, s, full, cheat: Shaping(
        compiled=c, fragile=min(f, k), correct=max(f, k), speedup=s, full_speedup=full, cheat=cheat
    ),
    *(st.floats(0, 10) for _ in range(4)),
    st.floats(1.1, 100),
    st.floats(-10, -0.01),
)


@given(shapings)
def test_under_every_shaping_a_cheat_scores_below_every_honest_failure(shaping):
    worst = min(of(status, shaping).value for status in HONEST)
    for status in CHEATS:
        assert of(status, shaping).value < worst
    for status in WAITING:
        assert of(status, shaping).value <= worst


def test_each_step_on_the_way_is_worth_more():
    values = [
        of("compile_error"),
        of("mismatch"),
        of("fragile"),
        of("correct"),
        reward_of(row("# speedup 2.0")),
    ]
    values.append(reward_of(row("# speedup 9.0")))
    assert sorted(each.value for each in values) == [each.value for each in values]
    assert {float} == {type(each.value) for each in values}, "a batch that all fails is no tensor of integers"
    assert 1.0 == pytest.approx(values[-1].value), "what is eight times as fast gets everything"
    assert {"compiled": 0.1, "correct": 0.4} == values[3].parts


def test_what_the_machinery_failed_at_is_to_be_left_out():
    assert (False, 0.0) == (of("infra_error").is_usable, of("infra_error").value)
    assert of("quarantined").is_usable


def test_a_speedup_is_worth_what_is_sure_of_it():
    sure = reward_of(row("# speedup 1.01"))
    assert "speedup" not in sure.parts, "its interval begins below 1"


@pytest.mark.parametrize(
    "wrong", [{"cheat": 0.0}, {"compiled": -0.1}, {"fragile": 0.9}, {"full_speedup": 1.0}, {"speedup": -1}]
)
def test_a_shaping_under_which_cheating_could_pay_is_refused(wrong):
    with pytest.raises(ValueError, match="must"):
        Shaping(**wrong)


@pytest.mark.parametrize("source", ["", "\ud800", None, "é" * (MAX_KERNEL_BYTES // 2) + "x"])
def test_an_answer_without_code_is_worth_what_does_not_compile_is(source):
    found = reward(source, 1, 19)  # no server is there to ask
    assert (0.0, "compile_error", True) == (found.value, found.status, found.is_usable)


def test_the_function_asks_the_server():
    source = "# speedup 4.0\nclass ModelNew: ...\n"
    with serving(own_problems=True) as url, JudgeClient(url) as client:
        got = reward(source.ljust(MAX_KERNEL_BYTES, "#"), 1, 19, client=client)
        own = reward(source, client=client, problem_source=SOURCE)
    for found in (got, own):
        assert (True, 4.0, "correct") == (found.correct, found.speedup, found.status)
    assert own.row.problem_sha256 != got.row.problem_sha256


def test_all_tasks_of_a_process_share_a_client_and_a_fork_has_its_own(monkeypatch):
    reply = "```python\n# speedup 4.0\nclass ModelNew: ...\n```"
    with serving() as url:
        monkeypatch.setenv("KBL_URL", url)
        before = clients()
        for _ in range(3):
            assert Tasks(levels=(1,), measure=False).answer(reply, 1, 19).is_done
        assert clients() == tuple(number + 1 for number in before)
        with get_context("fork").Pool(1) as pool:
            assert 0 == pool.apply(clients)[1]


def clients():
    found = _client.cache_info()
    return found.misses, found.currsize


def test_a_task_on_a_problem_that_there_is_not_is_refused_by_its_name():
    assert "19_ReLU" == Tasks(levels=(1,)).problem(1, 19).name
    with pytest.raises(ValueError, match="there is no problem 999 in level 1"):
        Tasks(levels=(1,)).problem(1, 999)
