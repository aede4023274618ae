"""What of an event is believed, and what one job may hand on to the next: numbers, whole commits, plain words."""

import json
from pathlib import Path

import pytest

from leaderboard.github.event import (
    EventError,
    WorkflowRunner,
    at,
    commit_sha,
    pull_number,
    read_runner,
    run_attempt,
    start_request,
    write_outputs,
)

HEAD = "a" * 40
LABELLED = {
    "pull_request": {"number": 7, "head": {"sha": HEAD}},
    "label": {"name": "evaluate"},
    "sender": {"login": "maria"},
}
BY_HAND = {"inputs": {"pr": "7", "head_sha": HEAD, "board": "H100-bf16"}, "sender": {"login": "maria"}}


def runner(payload: dict, event_name: str = "pull_request_target", **facts: object) -> WorkflowRunner:
    return WorkflowRunner(
        api_url="https://api.example.org",
        server_url="https://example.org",
        repository="o/r",
        run_id=5,
        token="t",
        event_name=event_name,
        payload=payload,
        **facts,
    )


def test_who_starts_a_run_again_needs_the_right_to_ask_as_does_who_set_the_label() -> None:
    request = start_request(runner(LABELLED, actor="mallory"))

    assert ("mallory", "maria") == request.senders
    assert ("maria", 7, HEAD, "evaluate") == (
        request.asked_by,
        request.pull,
        request.head_sha,
        request.label,
    )


def test_who_asks_by_hand_names_the_commit_and_the_board() -> None:
    request = start_request(runner(BY_HAND, "workflow_dispatch", actor="maria"))

    assert (("maria",), 7, HEAD, None, "H100-bf16") == (
        request.senders,
        request.pull,
        request.head_sha,
        request.label,
        request.board,
    )


@pytest.mark.parametrize("event_name", ["pull_request", "push", "schedule", "issue_comment"])
def test_nothing_but_a_label_or_a_hand_starts_an_evaluation(event_name: str) -> None:
    with pytest.raises(EventError, match=f"by label or dispatch, not by '{event_name}'"):
        start_request(runner(LABELLED, event_name))


@pytest.mark.parametrize("value", ["main", "HEAD", "a" * 39, "a" * 41, "g" * 40, "", None, f"{HEAD}\nx"])
def test_a_commit_is_named_whole_or_not_at_all(value: object) -> None:
    with pytest.raises(EventError, match="a full commit SHA of 40 hex digits"):
        commit_sha(value)


@pytest.mark.parametrize("value", ["0", "-1", "1.5", "7 8", "٧", "²", str(10**9), "", None, True])
def test_a_pull_request_is_given_by_its_number(value: object) -> None:
    assert 7 == pull_number(" 7 ")
    with pytest.raises(EventError, match="given by its number"):
        pull_number(value)


@pytest.mark.parametrize("value", ["0", "-1", "two", "٢", "²"])
def test_an_attempt_is_a_number_from_1(value: str) -> None:
    assert (1, 3) == (run_attempt({}, "ATTEMPT"), run_attempt({"ATTEMPT": "3"}, "ATTEMPT"))
    with pytest.raises(EventError, match="ATTEMPT must be a number from 1"):
        run_attempt({"ATTEMPT": value}, "ATTEMPT")


@pytest.mark.parametrize("value", ["7\npull=8", "a b", "$(id)", "x::y", "é", "a/b"])
def test_no_value_of_more_than_a_plain_word_is_handed_to_a_later_job(tmp_path: Path, value: str) -> None:
    there = runner(LABELLED, output=tmp_path / "outputs")
    with pytest.raises(EventError, match="output entry must be plain"):
        write_outputs(there, {"pull": 7, "entry": value})

    assert "pull=7\n" == (tmp_path / "outputs").read_text()


def test_what_a_payload_lacks_is_named_by_its_path() -> None:
    for payload in ({}, {"a": None}, {"a": {"b": None}}, {"a": 3}):
        with pytest.raises(EventError, match=r"the event payload has no a\.b"):
            at(payload, "a", "b")


@pytest.mark.parametrize(
    ("changed", "payload"),
    [
        ({"GITHUB_REPOSITORY": "o/r/x"}, LABELLED),
        ({"GITHUB_REPOSITORY": "o"}, LABELLED),
        ({"GITHUB_REPOSITORY": "o/r?x=1"}, LABELLED),
        ({"GITHUB_RUN_ID": "five"}, LABELLED),
        ({"GITHUB_RUN_ATTEMPT": "0"}, LABELLED),
        ({}, [LABELLED]),
    ],
)
def test_a_runner_that_is_set_up_otherwise_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: dict[str, str], payload: object
) -> None:
    (tmp_path / "event.json").write_text(json.dumps(payload))
    usual = {
        "GITHUB_EVENT_PATH": str(tmp_path / "event.json"),
        "GITHUB_REPOSITORY": "o/r",
        "GITHUB_RUN_ID": "5",
        "GITHUB_RUN_ATTEMPT": "1",
        "GITHUB_API_URL": "https://api.example.org",
        "GITHUB_SERVER_URL": "https://example.org",
        "GITHUB_EVENT_NAME": "push",
    }
    for name, value in {**usual, **changed}.items():
        monkeypatch.setenv(name, value)

    with pytest.raises(EventError):
        read_runner()
