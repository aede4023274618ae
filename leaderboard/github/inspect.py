"""A pull request at one commit, read as data and judged. Checks nothing out, runs nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from leaderboard.checks.document import MAX_FILE_BYTES
from leaderboard.github.changes import (
    FOLDER,
    WRITERS,
    Change,
    Sender,
    judge_changes,
    judge_mode,
    judge_rights,
)
from leaderboard.github.host import Host, Pull, TreeFile
from leaderboard.submission import InvalidSubmissionError, Submission, parse
from leaderboard.validate import check_bytes


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """What a commit of a pull request holds: the kind of change, the entry if fine, else the problems."""

    pull: Pull
    head_sha: str
    change: Change
    problems: tuple[str, ...]
    raw: bytes = field(default=b"", repr=False)
    blob_sha: str = ""
    submission: Submission | None = None

    @property
    def path(self) -> str:
        """The path of the entry that was sent; empty for other work."""
        return self.change.path

    @property
    def is_ready(self) -> bool:
        """Whether there is an entry that can be evaluated."""
        return self.submission is not None and not self.problems


def inspect_pull(host: Host, pull: Pull, head_sha: str) -> Inspection:
    """Read and judge what the commit changes; every problem that can be seen at once."""
    base = pull.base_sha if pull.is_merged else pull.base_ref
    change = judge_changes(host.changes(base, head_sha))
    if change.kind == "code":
        return Inspection(pull=pull, head_sha=head_sha, change=change, problems=())
    on_base = host.folder(pull.base_ref, FOLDER.rstrip("/"))
    problems = [*change.problems, *_rights(host, pull, change, on_base)]
    if change.kind == "withdrawal":
        return Inspection(pull=pull, head_sha=head_sha, change=change, problems=tuple(problems))
    return _with_entry(host, pull, head_sha, change=change, problems=problems)


def links_to_kernels(inspection: Inspection, repository_url: str) -> dict[str, str]:
    """Give the link to each kernel's line in the file at the inspected commit."""
    submission = inspection.submission
    if submission is None:
        return {}
    page = f"{repository_url}/blob/{inspection.head_sha}/{inspection.path}"
    lines = inspection.raw.decode("utf-8").split("\n")
    keys = {f'"{key}"': str(key) for key in submission.kernels}
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        name = keys.get(line.lstrip().partition(":")[0].rstrip())
        if name is not None:
            found.setdefault(name, f"{page}?plain=1#L{number}")
    return {key: found.get(key, page) for key in keys.values()}


def _rights(host: Host, pull: Pull, change: Change, on_base: dict[str, TreeFile]) -> Iterator[str]:
    touched = [path for path in (change.path, *change.withdrawn) if PurePosixPath(path).name in on_base]
    if not touched or pull.is_merged:
        return
    sender = Sender(id=pull.author_id, role=host.role(pull.author_login))
    for path in touched:
        yield from judge_rights(path, sender, host.owners(path, pull.base_ref))


def _with_entry(host: Host, pull: Pull, head_sha: str, *, change: Change, problems: list[str]) -> Inspection:
    name = PurePosixPath(change.path).name
    file = host.folder(head_sha, FOLDER.rstrip("/")).get(name)
    problems += judge_mode(change.path, file.mode if file else None)
    if problems or file is None:
        return Inspection(pull=pull, head_sha=head_sha, change=change, problems=tuple(problems))
    if file.size > MAX_FILE_BYTES:
        problems = [f"{change.path} has {file.size:,} bytes; submit at most {MAX_FILE_BYTES:,}"]
        return Inspection(pull=pull, head_sha=head_sha, change=change, problems=tuple(problems))
    inspection = Inspection(pull=pull, head_sha=head_sha, change=change, problems=(), blob_sha=file.sha)
    return _read_entry(host, inspection, host.blob(file.sha), name)


def _read_entry(host: Host, inspection: Inspection, raw: bytes, name: str) -> Inspection:
    report = check_bytes(raw, Path(name))
    texts = [f"line {m.line}, column {m.column}: {m.message}; {m.mend} ({m.rule})" for m in report.mistakes]
    texts += [f"and {report.more} more mistakes; kbl validate --all lists them"] if report.more else []
    try:
        submission = parse(raw, name)
    except InvalidSubmissionError:
        submission = None
    if submission is not None and submission.is_baseline and not _may_send_baselines(host, inspection.pull):
        texts.append("metadata.baseline is for the maintainers' own entries; leave it out")
    return replace(inspection, raw=raw, problems=tuple(texts), submission=submission)


def _may_send_baselines(host: Host, pull: Pull) -> bool:
    return pull.is_merged or host.role(pull.author_login) in WRITERS
