"""Fragile and rejected: what is wrong on other inputs alone, and what no honest kernel does."""

import weakref
from types import SimpleNamespace

import pytest
from evaluating import jobs_of, kernel
from kernel_evaluator.candidate.processes import RunFailed
from kernel_evaluator.judging import trials
from kernel_evaluator.judging.hearing import Ruled
from kernel_evaluator.records.rows import Row, Status

LATER = "class Later:\n    calls = 0\n"


def test_wrong_where_inputs_are_large_is_fragile_and_shows_where(measured):
    row = measured(jobs_of(kernel("if x.max() > 50: return self.right(x) * 1.5")))[0]
    assert (row.status, row.failure.name, row.speedup) == (Status.FRAGILE, "WrongOutput", None)
    assert row.evidence["counter_example"]["distribution"] in row.failure.message
    assert "right in the trials" in row.failure.message


def test_wrong_on_usual_inputs_once_it_is_timed_is_rejected(measured):
    later = kernel("Later.calls += 1", "if Later.calls > 12: return self.right(x) * 1.5", head=LATER)
    row = measured(jobs_of(later))[0]
    assert (row.status, row.failure.name) == (Status.REJECTED, "WrongTimedOutput")
    assert row.evidence["asked_again"] == "wrong"


def wrong(distribution, times):
    example = {"distribution": distribution, "seed": 7, "error_over_tolerance": repr(times)}
    return Ruled(Status.MISMATCH, "WrongOutput", "output 0 is off", {"counter_example": example})


RIGHT, DEAD = None, RunFailed("ProcessDied", "exit code 3")


@pytest.mark.parametrize(
    ("timed", "again", "usual", "status"),
    [
        (wrong("upstream", 1.2), RIGHT, RIGHT, Status.FRAGILE),
        (wrong("upstream", 500.0), RIGHT, RIGHT, Status.REJECTED),
        (wrong("upstream", 1.2), wrong("upstream", 1.2), RIGHT, Status.FRAGILE),
        (wrong("upstream", 500.0), wrong("upstream", 500.0), RIGHT, Status.REJECTED),
        (wrong("upstream", 500.0), DEAD, DEAD, Status.REJECTED),
        (wrong("large", 500.0), wrong("large", 500.0), RIGHT, Status.FRAGILE),
        (wrong("large", 500.0), wrong("large", 500.0), wrong("upstream", 500.0), Status.REJECTED),
        (wrong("large", 500.0), RIGHT, RIGHT, Status.REJECTED),
    ],
)
def test_a_wrong_timed_output_is_weighed_by_what_the_kernel_says_when_asked_again(
    monkeypatch, timed, again, usual, status
):
    def trial(hearing, distribution, seed):
        said = again if seed == 7 else usual
        assert distribution == (
            timed.evidence["counter_example"]["distribution"] if seed == 7 else "upstream"
        )
        if said is not None:
            raise said

    monkeypatch.setattr(trials, "trial", trial)
    ruled = trials.weigh_timed(
        SimpleNamespace(stand=SimpleNamespace(manners=SimpleNamespace(is_random=False)), was_spared=False),
        timed,
    )
    assert ruled.status is status
    assert ruled.evidence["counter_example"]["seed"] == 7


@pytest.mark.parametrize(
    "cause",
    [
        Ruled(Status.REJECTED, "InputChanged", "forward changed its inputs", {"violation": "input"}),
        Ruled(Status.MISMATCH, "OutputInInput", "return a new tensor", {"violation": "type"}),
    ],
)
def test_who_gives_nan_since_its_output_lies_in_an_input_is_told_the_cause(monkeypatch, cause):
    def trial(hearing, distribution, seed):
        raise cause

    monkeypatch.setattr(trials, "trial", trial)
    hearing = SimpleNamespace(stand=SimpleNamespace(manners=SimpleNamespace(is_random=False)))
    with pytest.raises(Ruled) as raised:
        trials.weigh_timed(hearing, wrong("signed", float("inf")))
    assert raised.value is cause


def recorded(name, distribution, **more):
    digests = dict.fromkeys(("kernel_sha256", "problem_sha256", "evaluator_sha256"), "0" * 64)
    evidence = {"counter_example": {"distribution": distribution}, **more}
    failure = {"name": name, "message": "wrong"}
    key = "level_1_problem_1_sample_0"
    return Row.from_json(
        {"key": key, "status": "rejected", **digests, "failure": failure, "evidence": evidence}
    ).status


def test_rows_from_before_there_was_fragile_are_shown_right():
    assert recorded("WrongOutput", "large") is Status.FRAGILE
    assert recorded("WrongOutput", "upstream") is Status.FRAGILE
    assert recorded("WrongTimedOutput", "spikes") is Status.FRAGILE
    assert recorded("WrongTimedOutput", "upstream") is Status.REJECTED
    assert recorded("WrongTimedOutput", "spikes", asked_again="right") is Status.REJECTED


class Output:
    """Stands for gigabytes of a device."""


def ruling(seen):
    output = Output()
    seen.append(weakref.ref(output))
    raise Ruled(Status.MISMATCH, "WrongOutput", "said of it")


def test_a_verdict_that_is_kept_while_trials_go_on_holds_no_outputs():
    seen, kept = [], None
    try:
        ruling(seen)
    except Ruled as ruled:
        kept = ruled.let_go()
    assert (kept.message, seen[0]()) == ("said of it", None)
