"""The host's API in the few verbs the board needs. The only module that imports `github`; decides nothing.

Waiting out rate limits and retrying what the host says is temporary are the client's business. What is left
is one HostError with one line, so that a verb can say it and stop.
"""

from __future__ import annotations

import hashlib
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from leaderboard.github.changes import ENTRIES, FOLDER_MODE, Listing, TreeItem, Trees
from leaderboard.github.settings import HostPatience
from leaderboard.show.comment import LABELS, MARKER
from leaderboard.texts.inert import one_line

if TYPE_CHECKING:
    from github.Issue import Issue
    from github.IssueComment import IssueComment
    from github.PullRequest import PullRequest
    from github.Repository import Repository

BOT = "github-actions[bot]"
API_VERSION = "2022-11-28"
STATUS_CONTEXT = "leaderboard/evaluate"
SECONDARY_LIMIT_WAIT_S = 60.0
WORK_OFF = "work-off-the-queue"
"""The event that lets a run work off the queue; a run's own token may send it."""
ASKED_AGAIN = frozenset({"DELETE", "GET", "HEAD", "PATCH", "POST", "PUT"})
"""Methods that are tried again after a passing error: what they say twice is as good as once."""
NOT_FOUND = 404
TOO_MANY = 429
NOBODY = 0
"""The account number of those whose account is gone; owns nothing."""
MOST_COMMITS, MOST_FORKS = 250, 10
"""Commits of a pull request, and places where it took the base branch in, that are gone through."""
OWNING_COMMITS = 30
"""Newest commits of a file on main that are asked for the pull requests they came with."""

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


class HostError(Exception):
    """The host refused a call or could not be reached, after all retries. One line, for a person."""


class RefusalError(HostError):
    """The host refused this very call, as it would again: a thread is locked, or what was named is gone."""


class CutListError(HostError):
    """The host listed only a part of a folder, so nothing can be said of the rest."""


class ForksError(HostError):
    """A head did not fork from a branch in one place, so that no two trees say what its merge changes."""


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


def blob_sha(content: bytes) -> str:
    """Give the name by which git knows a file of this content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def is_command(label: str) -> bool:
    """Say whether a label starts an evaluation, by its name alone: what evaluate.yml asks too."""
    return label == "evaluate" or label.startswith("evaluate: ")


@contextmanager
def telling_host_errors() -> Iterator[None]:
    """Turn the client's many exceptions into HostError."""
    import github
    import requests

    try:
        yield
    except github.GithubException as error:
        message = error.data.get("message", "") if isinstance(error.data, dict) else ""
        limited = isinstance(error, github.RateLimitExceededException) or error.status == TOO_MANY
        kind = RefusalError if 400 <= error.status < 500 and not limited else HostError
        raise kind(f"the host answered {error.status}: {one_line(str(message), 200)}") from error
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


def connect(api_url: str, repository: str, token: str, *, patience: HostPatience) -> Host:
    """Give the repository's host. Makes no call yet."""
    import github

    retry = github.GithubRetry(
        total=patience.api_retries,
        backoff_factor=0.5,
        status_forcelist=[429, *range(500, 600)],
        allowed_methods=ASKED_AGAIN,
        secondary_rate_wait=SECONDARY_LIMIT_WAIT_S,
        max_rate_limit_wait=patience.limit_wait_s,
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
        self._listings: dict[str, Listing] = {}
        """Folders that were listed: most are asked for twice, and no job lives for long."""
        self._read: dict[int, list[IssueComment]] = {}
        """Our comments as they were read: who reads one writes it next, and need not ask for it again."""

    @_telling
    def pull(self, number: int) -> Pull:
        """Look a pull request up."""
        return _as_pull(self._repository.get_pull(number))

    @_telling
    def pull_of_head(self, branch: str | None, head_sha: str, base_ref: str) -> Pull | None:
        """Find the open pull request against a branch whose head is the given commit.

        `branch` is `owner:name`. A fork can be deleted: then all open pull requests are gone through.
        """
        where = {} if branch is None else {"head": branch}
        for found in self._repository.get_pulls(state="open", **where):
            if found.head.sha == head_sha and found.base.ref == base_ref:
                return _as_pull(found)
        return None

    @_telling
    def merge_base(self, base_ref: str, head_sha: str) -> str:
        """Name the commit where a head forked from a branch or commit; raise ForksError where it is not one.

        The host names one of several. git merges by what they make together: what the one lacks, and the head
        removes, differs in no way that two trees show, and is gone after the merge.
        """
        compared = self._repository.compare(base_ref, head_sha, comparison_commits_per_page=MOST_COMMITS)
        found, count = compared.merge_base_commit.sha, compared.total_commits
        if count > MOST_COMMITS:
            raise ForksError(f"it has {count:,} commits; make at most {MOST_COMMITS} of them")
        own = {commit.sha: [parent.sha for parent in commit.parents] for commit in compared.commits}
        others = {parent for parents in own.values() for parent in parents} - own.keys() - {found}
        if len(others) >= MOST_FORKS or not all(self._is_behind(other, found) for other in others):
            raise ForksError(
                f"it forked from {base_ref} in several places; merge {base_ref} into it, and push"
            )
        return found

    @_telling
    def tip(self, ref: str) -> str:
        """Name the commit that a branch is at."""
        return self._repository.get_branch(ref).commit.sha

    @_telling
    def trees(self, commit: str) -> Trees:
        """List the root and the entries at a commit; raise CutListError where a list is not whole."""
        root = self._listing(commit)
        entries = root.get(ENTRIES)
        if entries is None or entries.mode != FOLDER_MODE:
            return Trees(root=root)
        return Trees(root=root, entries=self._listing(entries.sha))

    @_telling
    def blob(self, sha: str) -> bytes:
        """Read a file's content by its git name, and check that it is what was named."""
        content = b64decode(self._repository.get_git_blob(sha).content)
        found = blob_sha(content)
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
        """Give the account numbers of those whose merged pull requests brought the file.

        A commit that several people's pull requests hold makes nobody its owner: the host calls each of them
        merged once one is, and anybody can open one with a commit of somebody else's.
        """
        commits = self._repository.get_commits(sha=base_ref, path=path)
        found: set[int] = set()
        for commit, _ in zip(commits, range(OWNING_COMMITS), strict=False):
            pulls = [each for each in commit.get_pulls() if each.merged_at and each.base.ref == base_ref]
            senders = {pull.user.id if pull.user else NOBODY for pull in pulls}
            if len(senders) == 1:
                found |= senders
        return frozenset(found - {NOBODY})

    @_telling
    def comment(self, number: int) -> str:
        """Give the body of our sticky comment; empty where there is none."""
        ours = self._read[number] = self._sticky(self._repository.get_issue(number))
        return ours[0].body if ours else ""

    @_telling
    def put_comment(self, number: int, body: str) -> None:
        """Write our sticky comment, in place of the one that is there."""
        issue = self._repository.get_issue(number)
        read = self._read.pop(number, None)
        ours = self._sticky(issue) if read is None else read
        if not ours:
            issue.create_comment(body)
        elif ours[0].body.strip() != body.strip():
            ours[0].edit(body)
        for twin in ours[1:]:  # a retried request may have made two
            twin.delete()

    @_telling
    def remove_label(self, number: int, name: str) -> None:
        """Take a label off; fine where it is gone already."""
        import github

        try:
            self._repository.get_issue(number).remove_from_labels(name)
        except github.GithubException as error:
            if error.status != NOT_FOUND:
                raise

    @_telling
    def put_state_label(self, number: int, name: str | None) -> None:
        """Leave at most one of our state labels on the pull request, and no command that was carried out."""
        issue = self._repository.get_issue(number)
        there = {label.name for label in issue.labels}
        ours = {label for label in there if label in LABELS.values() or is_command(label)}
        for old in sorted(ours - {name}):
            self.remove_label(number, old)
        if name is not None and name not in there:
            issue.add_to_labels(name)

    @_telling
    def put_status(self, head_sha: str, state: str, *, description: str, url: str) -> None:
        """Set our commit status; state is pending, success, failure or error."""
        commit = self._repository.get_commit(head_sha)
        commit.create_status(
            state, target_url=url, description=one_line(description, 140), context=STATUS_CONTEXT
        )

    @_telling
    def is_over(self, run_id: int) -> bool:
        """Say whether a run has ended, in whatever way; one that was deleted has."""
        import github

        try:
            return self._repository.get_workflow_run(run_id).status == "completed"
        except github.UnknownObjectException:
            return True

    @_telling
    def work_off(self) -> None:
        """Start a run that works off the queue."""
        self._repository.create_repository_dispatch(WORK_OFF)

    def _is_behind(self, commit: str, other: str) -> bool:
        return self._repository.compare(other, commit).merge_base_commit.sha == commit

    def _listing(self, name: str) -> Listing:
        if name not in self._listings:
            self._listings[name] = self._list(name)
        return self._listings[name]

    def _list(self, name: str) -> Listing:
        tree = self._repository.get_git_tree(name)
        if tree.raw_data.get("truncated"):
            raise CutListError(f"the host lists only a part of the tree {name[:12]}")
        return {item.path: TreeItem(mode=item.mode, sha=item.sha, size=item.size or 0) for item in tree.tree}

    def _sticky(self, issue: Issue) -> list[IssueComment]:
        """Our comments: by the marker and by the author, since anybody may copy the marker."""
        return [
            comment
            for comment in issue.get_comments()
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
