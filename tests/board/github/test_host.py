"""What is made of the host's answers: whose word is taken, and what is tried again another time."""

from base64 import b64encode
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("github")

import github
import requests

from leaderboard.github.host import (
    ForksError,
    Host,
    HostError,
    RefusalError,
    blob_sha,
    is_command,
    telling_host_errors,
)


def host(**calls: Any) -> Host:
    """A host whose repository answers these calls alone."""
    return Host(SimpleNamespace(**calls))


def test_a_file_is_taken_only_where_its_content_is_what_was_named() -> None:
    content = b'{"kernels": {}}'
    said = SimpleNamespace(content=b64encode(content).decode())
    there = host(get_git_blob=lambda sha: said)

    assert content == there.blob(blob_sha(content))
    with pytest.raises(HostError, match=f"gave content {blob_sha(content)} for blob {'0' * 40}"):
        there.blob("0" * 40)


def commit(name: str, *parents: str) -> SimpleNamespace:
    return SimpleNamespace(sha=name, parents=[SimpleNamespace(sha=parent) for parent in parents])


@pytest.mark.parametrize("count", [250, 251])
def test_a_branch_of_more_commits_than_the_host_lists_is_not_judged_by_a_part_of_them(count: int) -> None:
    listed = [commit(f"c{n}", f"c{n - 1}" if n else "fork") for n in range(250)]
    compared = SimpleNamespace(merge_base_commit=commit("fork"), total_commits=count, commits=listed)
    there = host(compare=lambda *_, **options: compared)
    if count == 250:
        assert "fork" == there.merge_base("main", "head")
    else:
        with pytest.raises(ForksError, match="it has 251 commits; make at most 250 of them"):
            there.merge_base("main", "head")


@pytest.mark.parametrize("count", [9, 10])
def test_a_branch_that_took_main_in_at_many_places_is_not_gone_through_without_end(count: int) -> None:
    merges = [commit(f"c{n}", f"c{n - 1}" if n else "fork", f"main{n}") for n in range(count)]
    asked = []

    def compare(base: str, head: str, **options: object) -> SimpleNamespace:
        asked.append(head)
        merge_base = "fork" if head == "head" else head
        return SimpleNamespace(merge_base_commit=commit(merge_base), total_commits=count, commits=merges)

    if count == 9:
        assert "fork" == host(compare=compare).merge_base("main", "head")
    else:
        with pytest.raises(ForksError, match="in several places"):
            host(compare=compare).merge_base("main", "head")
        assert ["head"] == asked


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (github.GithubException(403, {"message": "locked"}), RefusalError),
        (github.UnknownObjectException(404, {"message": "Not Found"}), RefusalError),
        (github.GithubException(429, {"message": "slow down"}), HostError),
        (github.RateLimitExceededException(403, {"message": "limit"}), HostError),
        (github.GithubException(502, "a page"), HostError),
        (requests.ConnectionError("gone"), HostError),
    ],
)
def test_what_the_host_would_refuse_again_is_told_apart_from_what_passes(
    error: Exception, kind: type[HostError]
) -> None:
    with pytest.raises(HostError) as told, telling_host_errors():
        raise error

    assert kind is type(told.value)


def test_a_person_without_a_role_and_a_run_that_is_gone_are_that_and_no_fault() -> None:
    def unknown(*_: object) -> None:
        raise github.UnknownObjectException(404, {"message": "Not Found"})

    there = host(get_collaborator_role_name=unknown, get_workflow_run=unknown)
    assert ("none", True) == (there.role("ghost"), there.is_over(5))


@pytest.mark.parametrize(
    ("label", "starts"),
    [("evaluate", True), ("evaluate: H100-bf16", True), ("evaluated", False), ("re-evaluate: x", False)],
)
def test_a_label_is_a_command_by_its_whole_name(label: str, starts: bool) -> None:
    assert starts is is_command(label)


def test_an_entry_belongs_to_those_whose_merged_pull_requests_to_main_brought_it() -> None:
    def pull(number: int, *, merged: bool = True, base: str = "main") -> SimpleNamespace:
        user = SimpleNamespace(id=number) if number else None
        return SimpleNamespace(user=user, merged_at=1 if merged else None, base=SimpleNamespace(ref=base))

    brought = ([pull(1), pull(2, merged=False), pull(3, base="stable"), pull(1)], [pull(0)], [])
    commits = [SimpleNamespace(get_pulls=lambda pulls=pulls: pulls) for pulls in brought]

    assert {1} == host(get_commits=lambda **_: commits).owners("submissions/a.json", "main")
