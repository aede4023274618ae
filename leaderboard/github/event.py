"""What happened, read from the runner's environment and event payload. Calls nobody; trusts no text in it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SHA = re.compile(r"[0-9a-f]{40}")
_REPOSITORY = re.compile(r"[A-Za-z0-9._-]+/[A-Za-z0-9._-]+")


class EventError(ValueError):
    """The runner's environment or the payload is not what a verb needs; the message says what is missing."""


@dataclass(frozen=True, kw_only=True)
class WorkflowRunner:
    """The runner's own facts: where the API is, which repository, which run, and the API's token."""

    api_url: str
    server_url: str
    repository: str
    run_id: int
    token: str
    event_name: str
    payload: Mapping[str, Any]
    actor: str = ""
    attempt: int = 1
    output: Path | None = None
    summary: Path | None = None

    @property
    def run_url(self) -> str:
        """The page of this run."""
        return f"{self.server_url}/{self.repository}/actions/runs/{self.run_id}"

    @property
    def clone_url(self) -> str:
        """Where git reaches the repository."""
        return f"{self.server_url}/{self.repository}.git"


@dataclass(frozen=True, kw_only=True)
class StartRequest:
    """Somebody asks for an evaluation: of which pull request, at which commit, who, by label or by hand.

    `senders` are all whose right to ask counts; `asked_by` is the one in whose name it waits.
    """

    pull: int
    head_sha: str
    senders: tuple[str, ...]
    label: str | None
    board: str = ""
    asked_by: str = ""


@dataclass(frozen=True, kw_only=True)
class CheckedHead:
    """A check of this head was requested or completed; whose branch it is, where that is still known."""

    head_sha: str
    branch: str | None
    finished: bool


def read_runner() -> WorkflowRunner:
    """Read the variables that every runner sets; raise EventError where one is missing or malformed."""
    environment = os.environ
    try:
        payload = json.loads(Path(environment["GITHUB_EVENT_PATH"]).read_text("utf-8"))
        repository = environment["GITHUB_REPOSITORY"]
        run_id = int(environment.get("GITHUB_RUN_ID") or 0)
        attempt = run_attempt(environment)
        urls = environment["GITHUB_API_URL"], environment["GITHUB_SERVER_URL"]
        event_name = environment["GITHUB_EVENT_NAME"]
    except (KeyError, OSError, ValueError) as error:
        raise EventError(f"not on a runner: {type(error).__name__} {error}") from error
    if not _REPOSITORY.fullmatch(repository) or not isinstance(payload, dict):
        raise EventError(
            f"GITHUB_REPOSITORY must be owner/name with a payload that is an object, got {repository!r}"
        )
    return WorkflowRunner(
        api_url=urls[0],
        server_url=urls[1],
        repository=repository,
        run_id=run_id,
        token=environment.get("GITHUB_TOKEN", ""),
        event_name=event_name,
        payload=payload,
        actor=environment.get("GITHUB_TRIGGERING_ACTOR", ""),
        attempt=attempt,
        output=_path(environment, "GITHUB_OUTPUT"),
        summary=_path(environment, "GITHUB_STEP_SUMMARY"),
    )


def run_attempt(environment: Mapping[str, str] = os.environ, name: str = "GITHUB_RUN_ATTEMPT") -> int:
    """Say how often the run was started, from 1; raise EventError where that is no number."""
    text = environment.get(name) or "1"
    if not text.isascii() or not text.isdecimal() or int(text) < 1:
        raise EventError(f"{name} must be a number from 1, got {text[:40]!r}")
    return int(text)


def start_request(runner: WorkflowRunner) -> StartRequest:
    """Read who asks for an evaluation of what. The commit comes from the payload, never from a later look."""
    payload, board = runner.payload, ""
    if runner.event_name == "pull_request_target":
        pull, sha = at(payload, "pull_request", "number"), at(payload, "pull_request", "head", "sha")
        label: str | None = str(at(payload, "label", "name"))
    elif runner.event_name == "workflow_dispatch":
        pull, sha, label = at(payload, "inputs", "pr"), at(payload, "inputs", "head_sha"), None
        board = str(payload["inputs"].get("board") or "")
    else:
        raise EventError(f"an evaluation starts by label or dispatch, not by {runner.event_name!r}")
    sender = str(at(payload, "sender", "login"))
    return StartRequest(
        pull=pull_number(pull),
        head_sha=commit_sha(sha),
        senders=tuple(sorted({sender, runner.actor} - {""})),
        label=label,
        board=board,
        asked_by=sender,
    )


def checked_head(runner: WorkflowRunner) -> CheckedHead:
    """Read which head the check ran for, from a `workflow_run` payload."""
    run = at(runner.payload, "workflow_run")
    repository = run.get("head_repository") or {}
    owner, branch = (repository.get("owner") or {}).get("login"), run.get("head_branch")
    return CheckedHead(
        head_sha=commit_sha(at(run, "head_sha")),
        branch=f"{owner}:{branch}" if owner and branch else None,
        finished=runner.payload.get("action") == "completed",
    )


def pull_number(value: object) -> int:
    """Read a pull request's number, as a number or as text."""
    text = str(value).strip()
    if not text.isascii() or not text.isdecimal() or not 0 < int(text) < 10**9:
        raise EventError(f"the pull request must be given by its number, got {text[:40]!r}")
    return int(text)


def commit_sha(value: object) -> str:
    """Read a full commit SHA; a branch name or a short SHA is refused."""
    text = str(value).strip().lower()
    if not SHA.fullmatch(text):
        raise EventError(f"the head must be a full commit SHA of 40 hex digits, got {text[:60]!r}")
    return text


def at(payload: Mapping[str, Any], *path: str) -> Any:
    """Give the value at a path of the payload; raise EventError that names the path where there is none."""
    value: Any = payload
    for name in path:
        if not isinstance(value, Mapping) or value.get(name) is None:
            raise EventError(f"the event payload has no {'.'.join(path)}")
        value = value[name]
    return value


def write_outputs(runner: WorkflowRunner, values: Mapping[str, str | int]) -> None:
    """Hand values to later jobs; only values of one safe line are accepted."""
    if runner.output is None:
        return
    with runner.output.open("a", encoding="utf-8") as stream:
        for name, value in values.items():
            if not re.fullmatch(r"[A-Za-z0-9._-]*", str(value)):
                raise EventError(f"output {name} must be plain, got {str(value)[:60]!r}")
            stream.write(f"{name}={value}\n")


def write_summary(runner: WorkflowRunner, markdown: str) -> None:
    """Add Markdown to the run's summary page."""
    if runner.summary is not None:
        with runner.summary.open("a", encoding="utf-8") as stream:
            stream.write(markdown + "\n")


def _path(environment: Mapping[str, str], name: str) -> Path | None:
    return Path(environment[name]) if environment.get(name) else None
