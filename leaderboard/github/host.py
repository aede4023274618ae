"""The host's API in the few verbs the board needs. The only module that imports `github`; decides nothing.

Waiting out rate limits and retrying what the host says is temporary are the client's business. What is left
is one HostError with one line, so that a verb can say it and stop.
"""

from __future__ import annotations

import hashlib
from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from leaderboard.comment import LABELS, MARKER, Step
from leaderboard.github.changes import ChangedFile
from leaderboard.github.settings import Patience
from leaderboard.inert import one_line

if TYPE_CHECKING:
    from github.IssueComment import IssueComment
    from github.PullRequest import PullRequest
    from github.Repository import Repository

BOT = "github-actions[bot]"
API_VERSION = "2022-11-28"
STATUS_CONTEXT = "leaderboard/evaluate"
SECONDARY_LIMIT_WAIT_S = 60.0
LONGEST_LIMIT_WAIT_S = 480.0
"""Less than the ten minutes that a job has."""
ASKED_AGAIN = frozenset({"DELETE", "GET", "HEAD", "PATCH", "POST", "PUT"})
"""Methods that are tried again after a passing error: what they say twice is as good as once."""
NOBODY = 0
"""The account number of those whose account is gone; owns nothing."""
OWNING_COMMITS = 30
"""Newest commits of a file on main that are asked for the pull requests they came with."""

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


class HostError(Exception):
    """The host refused a call or could not be reached, after all retries. One line, for a person."""


@dataclass(frozen=True, kw_only=True)
class Pull:
    """A pull request as it is now. `head_sha` moves with every push: what was asked for is in the event."""

    number: int
    state: str
    is_merged: bool
    base_ref: str
    base_sha: str
    head_sha: str
    author_id: int
    author_login: str


@dataclass(frozen=True, kw_only=True)
class TreeFile:
    """A file as git names it: mode, content's name, and size in bytes."""

    mode: str
    sha: str
    size: int


@contextmanager
def telling_host_errors() -> Iterator[None]:
    """Turn the client's many exceptions into HostError."""
    import github
    import requests

    try:
        yield
    except github.GithubException as error:
        message = error.data.get("message", "") if isinstance(error.data, dict) else ""
        raise HostError(f"the host answered {error.status}: {one_line(str(message), 200)}") from error
    except requests.RequestException as error:
        raise HostError(f"the host cannot be reached: {type(error).__name__}") from error


def _telling(
    method: Callable[Concatenate[Host, Arguments], Answer],
) -> Callable[Concatenate[Host, Arguments], Answer]:
    @wraps(method)
    def wrapped(self: Host, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Answer:
        with telling_host_errors():
            return method(self, *args, **kwargs)

    return wrapped


def connect(api_url: str, repository: str, token: str, *, patience: Patience) -> Host:
    """Give the repository's host. Makes no call yet."""
    import github

    retry = github.GithubRetry(
        total=patience.api_retries,
        backoff_factor=0.5,
        status_forcelist=[429, *range(500, 600)],
        allowed_methods=ASKED_AGAIN,
        secondary_rate_wait=SECONDARY_LIMIT_WAIT_S,
        max_rate_limit_wait=LONGEST_LIMIT_WAIT_S,
    )
    client = github.Github(
        auth=github.Auth.Token(token),
        base_url=api_url,
        per_page=100,
        retry=retry,
        seconds_between_requests=patience.pause_s,
        seconds_between_writes=4 * patience.pause_s,
        lazy=True,
        api_version=API_VERSION,
    )
    return Host(client.get_repo(repository))


class Host:
    """One repository on the host. Every method may raise HostError."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository

    @_telling
    def pull(self, number: int) -> Pull:
        """Look a pull request up."""
        return _as_pull(self._repository.get_pull(number))

    @_telling
    def pull_of_head(self, owner: str, branch: str, head_sha: str) -> Pull | None:
        """Find the open pull request of a branch, if its head is still the given commit."""
        for found in self._repository.get_pulls(state="open", head=f"{owner}:{branch}"):
            if found.head.sha == head_sha:
                return _as_pull(found)
        return None

    @_telling
    def changes(self, base_ref: str, head_sha: str) -> list[ChangedFile]:
        """List what the commit changes against the base, by its name, so that no push can alter it."""
        return [
            ChangedFile(path=file.filename, status=file.status, previous_path=file.previous_filename)
            for file in self._repository.compare(base_ref, head_sha).files
        ]

    @_telling
    def folder(self, commit: str, name: str) -> dict[str, TreeFile]:
        """List a folder at a commit, by file name; empty where there is no such folder."""
        for item in self._repository.get_git_tree(commit).tree:
            if item.path == name and item.type == "tree":
                return {
                    file.path: TreeFile(mode=file.mode, sha=file.sha, size=file.size or 0)
                    for file in self._repository.get_git_tree(item.sha).tree
                }
        return {}

    @_telling
    def blob(self, sha: str) -> bytes:
        """Read a file's content by its git name, and check that it is what was named."""
        content = b64decode(self._repository.get_git_blob(sha).content)
        found = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
        if found != sha:
            raise HostError(f"the host gave content {found} for blob {sha}")
        return content

    @_telling
    def role(self, login: str) -> str:
        """Give a person's role: admin, maintain, write, triage, read, a custom one; `none` for strangers."""
        import github

        try:
            return self._repository.get_collaborator_role_name(login)
        except github.UnknownObjectException:
            return "none"

    @_telling
    def owners(self, path: str, base_ref: str) -> frozenset[int]:
        """Give the account numbers of those whose merged pull requests brought the file."""
        commits = self._repository.get_commits(sha=base_ref, path=path)
        newest = [commit for commit, _ in zip(commits, range(OWNING_COMMITS), strict=False)]
        pulls = [pull for commit in newest for pull in commit.get_pulls()]
        merged = [pull for pull in pulls if pull.merged_at is not None and pull.base.ref == base_ref]
        return frozenset(pull.user.id for pull in merged if pull.user is not None)

    @_telling
    def comment(self, number: int) -> str:
        """Give the body of our sticky comment; empty where there is none."""
        ours = self._sticky(self._repository.get_pull(number))
        return ours[0].body if ours else ""

    @_telling
    def put_comment(self, number: int, body: str) -> None:
        """Write our sticky comment, in place of the one that is there."""
        pull = self._repository.get_pull(number)
        ours = self._sticky(pull)
        if not ours:
            pull.create_issue_comment(body)
        elif ours[0].body.strip() != body.strip():
            ours[0].edit(body)
        for twin in ours[1:]:  # a retried request may have made two
            twin.delete()

    @_telling
    def remove_label(self, number: int, name: str) -> None:
        """Take a label off; fine where it is gone already."""
        import github

        try:
            self._repository.get_pull(number).remove_from_labels(name)
        except github.UnknownObjectException:
            return

    @_telling
    def put_state_label(self, number: int, name: str | None) -> None:
        """Leave at most one of our state labels on the pull request."""
        pull = self._repository.get_pull(number)
        there = {label.name for label in pull.labels}
        for old in sorted((there & set(LABELS.values())) - {name}):
            self.remove_label(number, old)
        if name is not None and name not in there:
            pull.add_to_labels(name)

    @_telling
    def put_status(self, head_sha: str, state: str, *, description: str, url: str) -> None:
        """Set our commit status; state is pending, success, failure or error."""
        commit = self._repository.get_commit(head_sha)
        commit.create_status(
            state, target_url=url, description=one_line(description, 140), context=STATUS_CONTEXT
        )

    @_telling
    def steps(self, run_id: int, job_name: str, prefix: str) -> tuple[str, tuple[Step, ...]]:
        """Give a job's status and those of its steps whose names start with `prefix`."""
        for job in self._repository.get_workflow_run(run_id).jobs():
            if job.name == job_name:
                chosen = [step for step in job.steps if step.name.startswith(prefix)]
                shown = tuple(Step(name=step.name, status=step.conclusion or step.status) for step in chosen)
                return job.conclusion or job.status, shown
        return "queued", ()

    def _sticky(self, pull: PullRequest) -> Sequence[IssueComment]:
        """Our comments: by the marker and by the author, since anybody may copy the marker."""
        return [
            comment
            for comment in pull.get_issue_comments()
            if comment.user is not None and comment.user.login == BOT and comment.body.startswith(MARKER)
        ]


def _as_pull(pull: PullRequest) -> Pull:
    author = pull.user  # None once the account is deleted
    return Pull(
        number=pull.number,
        state=pull.state,
        is_merged=pull.merged_at is not None,
        base_ref=pull.base.ref,
        base_sha=pull.base.sha,
        head_sha=pull.head.sha,
        author_id=author.id if author else NOBODY,
        author_login=author.login if author else "ghost",
    )
