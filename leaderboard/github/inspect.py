"""A pull request at one commit, read as data and judged. Checks nothing out, runs nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from leaderboard.checks.document import MAX_FILE_BYTES
from leaderboard.checks.report import check_bytes
from leaderboard.files.submission import InvalidSubmissionError, Submission, parse
from leaderboard.github.changes import (
    FOLDER,
    MAX_WITHDRAWN,
    WRITERS,
    Change,
    Listing,
    Sender,
    judge_changes,
    judge_mode,
    judge_records,
    judge_rights,
)
from leaderboard.github.host import CutListError, ForksError, Host, Pull


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
    try:
        after = host.trees(head_sha)
        fork = host.merge_base(base, head_sha)
    except CutListError:
        problem = "the commit has a folder with too many files to be listed; send your entry alone"
        return _unread(pull, head_sha, problem)
    except ForksError as error:
        return _unread(pull, head_sha, f"what the branch changes cannot be told: {error}")
    change = judge_changes(host.trees(fork), after)
    problems = [*change.problems, *_rights(host, pull, change)]
    inspection = Inspection(pull=pull, head_sha=head_sha, change=change, problems=tuple(problems))
    return _with_entry(host, inspection, after.entries) if change.kind == "entry" else inspection


def inspect_merged(host: Host, base_ref: str, commit: str, entry: str) -> Inspection:
    """Read a merged entry at a commit of the base branch, as one that nobody sends."""
    path = f"{FOLDER}{entry}.json"
    nobody = Pull(
        number=0,
        state="closed",
        is_merged=True,
        base_ref=base_ref,
        base_sha=commit,
        head_sha=commit,
        author_id=0,
        author_login="",
    )
    change = Change(kind="entry", path=path)
    inspection = Inspection(pull=nobody, head_sha=commit, change=change, problems=())
    return _with_entry(host, inspection, host.trees(commit).entries)


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


def _unread(pull: Pull, head_sha: str, problem: str) -> Inspection:
    change = Change(kind="entry", problems=(problem,))
    return Inspection(pull=pull, head_sha=head_sha, change=change, problems=change.problems)


def _rights(host: Host, pull: Pull, change: Change) -> Iterator[str]:
    paths = [path for path in (change.path, *change.withdrawn) if path]
    if pull.is_merged or not (paths or change.touches_records) or len(change.withdrawn) > MAX_WITHDRAWN:
        return
    sender = Sender(id=pull.author_id, role=host.role(pull.author_login))
    if sender.role in WRITERS:
        return
    if change.touches_records:
        yield from judge_records(sender)
    now = host.trees(pull.base_ref).entries
    for path in paths:
        owners = host.owners(path, pull.base_ref)
        yield from judge_rights(path, sender, owners, is_there=PurePosixPath(path).name in now)


def _with_entry(host: Host, inspection: Inspection, entries: Listing) -> Inspection:
    """Read the entry too, where nothing stands against the change."""
    path = inspection.path
    file = entries.get(PurePosixPath(path).name)
    problems = [*inspection.problems, *(judge_mode(path, file.mode) if file else [])]
    if not problems and file is not None and file.size > MAX_FILE_BYTES:
        problems = [f"{path} has {file.size:,} bytes; submit at most {MAX_FILE_BYTES:,}"]
    if problems or file is None:
        return replace(inspection, problems=tuple(problems))
    found = replace(inspection, blob_sha=file.sha)
    return _read_entry(host, found, host.blob(file.sha), PurePosixPath(path).name)


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
