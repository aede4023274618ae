"""Pull requests that would take, hide or withdraw what somebody else sent: what each gets, and what a merge would do."""

import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

pytest.importorskip("github")

from fakes.fake_github import Host, Pull, serve
from fakes.project import PEOPLE, submission

from leaderboard.github.changes import TreeItem, Trees, judge_changes
from leaderboard.github.host import Pull as SeenPull
from leaderboard.github.host import connect
from leaderboard.github.inspect import Inspection, inspect_pull
from leaderboard.github.settings import HostPatience

ROOT = Path(__file__).resolve().parents[3]
KERNEL = ("level_1_problem_19_sample_0", "#")
ALICES = "submissions/alice-first.json"
RECORDED = "data/results/H100/alice-first.json"
BOBS = "submissions/bob-first.json"
NEW = "submissions/bob-second.json"
MINE = submission(KERNEL, name="Bob")
BEFORE = {
    "README.md": b"A board.\n",
    "submissions/README.md": b"Entries.\n",
    BOBS: submission(KERNEL, name="Bob"),
    RECORDED: b"{}\n",
    "data/notices.json": b"[]\n",
}
Changes = Mapping[str, bytes | tuple[str, bytes] | None]
"""Contents by path; with a mode where it is no plain file; None removes a file or a whole folder."""


@dataclass(frozen=True)
class Hostile:
    """A pull request, as SECURITY.md lists it, with words of the answer; no words where it passes and harms nobody."""

    title: str
    changes: Changes
    words: str
    author: str = "bob"
    start: str = "main"
    facts: Mapping[str, int] = field(default_factory=dict)


LINK, MODULE, RUNNABLE = "120000", "160000", "100755"
OTHERS = "those who sent it, or maintainers, may change it"
MANY = {f"a/{i}.txt": b"%d" % i for i in range(320)}
CROWD = {f"submissions/bob-{i}.json": MINE for i in range(3000)}
COMMIT = (MODULE, b"")
SENT = submission(KERNEL, name="Alice's first")
OLDER = submission(KERNEL, name="Alice's first attempt")

CASES = [
    Hostile("320 files elsewhere, and another's entry written over", {**MANY, ALICES: MINE}, OTHERS),
    Hostile("320 files elsewhere, and another's entry removed", {**MANY, ALICES: None}, OTHERS),
    Hostile("3,000 entries, another's among them", {**CROWD, ALICES: MINE}, "send one entry a pull request"),
    Hostile("another's entry written over", {ALICES: MINE}, OTHERS),
    Hostile("the same with the role `triage`", {ALICES: MINE}, OTHERS, author="mallory"),
    Hostile("the same from an account that is gone", {ALICES: MINE}, OTHERS, author="ghost"),
    Hostile("another's entry removed", {ALICES: None}, OTHERS),
    Hostile("another's entry moved to an own name", {ALICES: None, NEW: SENT}, OTHERS),
    Hostile("another's entry moved out of the folder", {ALICES: None, "docs/alice.json": SENT}, OTHERS),
    Hostile("two entries that change places", {ALICES: MINE, BOBS: SENT}, "send one entry a pull request"),
    Hostile("an own entry withdrawn and another's written", {BOBS: None, ALICES: MINE}, OTHERS),
    Hostile("the whole folder removed", {"submissions": None}, OTHERS),
    Hostile("another's name in capitals", {"submissions/Alice-First.json": MINE}, "is not an entry id"),
    Hostile("another's name in other letters", {"submissions/аlice-first.json": MINE}, "is not an entry id"),
    Hostile("another's name with a blank at its end", {ALICES + " ": MINE}, "an entry is submissions/"),
    Hostile("a name that holds a command to the runner", {"submissions/x\n::error::.json": MINE}, "is not an entry id"),
    Hostile("a folder `Submissions`", {"Submissions/alice-first.json": MINE}, "Submissions looks like submissions/"),
    Hostile("a folder in wide letters", {"ｓubmissions/alice-first.json": MINE}, "looks like submissions/"),
    Hostile("the folder as a symbolic link", {"submissions": (LINK, b"a"), "a/x.json": MINE}, "must stay a folder"),
    Hostile("the folder as a submodule", {"submissions": COMMIT}, "must stay a folder"),
    Hostile("the folder as a file", {"submissions": MINE}, "must stay a folder"),
    Hostile("another's entry as a symbolic link", {ALICES: (LINK, b"bob-first.json")}, "it is a symbolic link"),
    Hostile("another's entry as a submodule", {ALICES: COMMIT}, "it is a submodule"),
    Hostile("another's entry as an executable file", {ALICES: (RUNNABLE, SENT)}, OTHERS),
    Hostile("another's entry as a folder", {ALICES: None, ALICES + "/x.json": MINE}, "it is a folder"),
    Hostile("an own entry as a symbolic link to another's", {NEW: (LINK, b"alice-first.json")}, "it is a symbolic link"),
    Hostile("an own entry in a folder below", {"submissions/bob/second.json": MINE}, "an entry is submissions/"),
    Hostile("an own entry, and another's result", {NEW: MINE, RECORDED: b"[]"}, "data/ holds what evaluations recorded"),
    Hostile("another's result removed, no entry sent", {RECORDED: None}, "data/ holds what evaluations recorded"),
    Hostile("the records as a symbolic link", {"data": (LINK, b"a")}, "data/ holds what evaluations recorded"),
    Hostile("an own entry, and a workflow", {NEW: MINE, ".github/workflows/x.yml": b""}, "this also changes .github"),
    Hostile("an own entry, and attributes for all", {NEW: MINE, "submissions/.gitattributes": b""}, "send one entry"),
    Hostile("an own entry, and the folder's README", {NEW: MINE, "submissions/README.md": b""}, "this also changes"),
    Hostile("another's name, from before it was sent", {ALICES: MINE}, OTHERS, start="main~3"),
    Hostile("another's name, withdrawn since", {"submissions/alice-old.json": MINE}, "was on the board before"),
    Hostile("another's entry as it was before", {ALICES: OLDER}, OTHERS),
    Hostile("an entry that calls itself a baseline", {NEW: submission(KERNEL, baseline=True)}, "metadata.baseline is for"),
    Hostile("a file of 17 MiB", {NEW: b" " * (17 << 20)}, "has 17,825,792 bytes; submit at most"),
    Hostile("more files than the host lists", {**MANY, NEW: MINE}, "too many files", facts={"longest_list": 2}),
    Hostile("an own entry alone, and it is fine", {NEW: MINE}, ""),
    Hostile("other work alone: no entry, no comment, and a review by the code's owners", MANY, ""),
]  # fmt: skip


class Repository:
    """A bare repository that is written to without a work tree, so that it holds whatever git can hold."""

    def __init__(self, folder: Path) -> None:
        self.path = folder
        subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(folder)], check=True)

    def git(self, *arguments: str, given: bytes | None = None) -> str:
        command = ["git", "-C", str(self.path), *arguments]
        return subprocess.run(command, input=given, capture_output=True, check=True).stdout.decode().strip()

    def commit(self, changes: Changes, ref: str, start: str = "", *, merges: str = "", day: int = 0) -> None:
        """Write a commit of these changes to a ref; removals first, as a folder may take a file's place."""
        ordered = sorted(changes.items(), key=lambda item: item[1] is not None)
        head = f"reset {ref}\n\ncommit {ref}\ncommitter t <t@t> {86_400 * day} +0000\ndata 8\nA change\n"
        head += (f"from {start}\n" if start else "") + (f"merge {merges}\n" if merges else "")
        stream = head.encode()
        self.git(
            "fast-import",
            "--quiet",
            "--force",
            given=stream + b"".join(self._line(*item) for item in ordered),
        )

    def _line(self, path: str, content: bytes | tuple[str, bytes] | None) -> bytes:
        name = '"' + path.replace("\n", "\\n") + '"'
        mode, data = content if isinstance(content, tuple) else ("100644", content)
        if data is None:
            return f"D {name}\n".encode()
        if mode == MODULE:
            return f"M {mode} {'1' * 40} {name}\n".encode()
        return f"M {mode} inline {name}\ndata {len(data)}\n".encode() + data + b"\n"


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """Alice's first entry is on the board, an older one of hers was withdrawn."""
    made = Repository(tmp_path_factory.mktemp("host") / "r.git")
    main = "refs/heads/main"
    made.commit({**BEFORE, "submissions/alice-old.json": SENT}, main)
    for changes in (
        {"submissions/alice-old.json": None},
        {ALICES: OLDER},
        {ALICES: SENT},
        {"README.md": b"A better board.\n"},
    ):
        made.commit(changes, main, made.git("rev-parse", "main"))
    return made


@pytest.fixture(scope="module")
def served(repository: Repository) -> Iterator[tuple[Host, str]]:
    host = Host(
        git_dir=repository.path,
        people=dict(PEOPLE),
        tokens={"t": {"contents": "read", "pull-requests": "read"}},
    )
    for number, commit in ((1, "main~4"), (2, "main~1")):  # both of Alice's merged pull requests
        host.pulls[number] = Pull(
            number=number,
            author="alice",
            branch="x",
            state="closed",
            base_sha="0" * 40,
            merge_commit=repository.git("rev-parse", commit),
        )
        repository.git("update-ref", f"refs/pull/{number}/head", commit)
    with serve(host) as url:
        yield host, url


def sent(repository: Repository, served: tuple[Host, str], case: Hostile) -> Inspection:
    host, url = served
    repository.commit(case.changes, "refs/pull/9/head", repository.git("rev-parse", case.start))
    host.pulls[9] = Pull(
        number=9, author=case.author, branch="y", base_sha=repository.git("rev-parse", "main")
    )
    for name, value in {"longest_list": 100_000, **case.facts}.items():
        setattr(host, name, value)
    api = connect(url, "o/r", "t", patience=HostPatience(api_retries=0, pause_s=0.0, limit_wait_s=1.0))
    return inspect_pull(api, api.pull(9), host.head_of(host.pulls[9]))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_a_hostile_pull_request_is_told_what_is_wrong_or_harms_nobody(
    repository: Repository, served: tuple[Host, str], case: Hostile
) -> None:
    inspection = sent(repository, served, case)

    if case.words:
        assert case.words in "\n".join(inspection.problems)
        assert not inspection.is_ready
        return
    assert () == inspection.problems
    merged = repository.git("merge-tree", "--write-tree", "main", "refs/pull/9/head")
    for path in (ALICES, "data", BOBS):
        assert repository.git("rev-parse", f"main:{path}") == repository.git("rev-parse", f"{merged}:{path}")


def test_a_branch_that_forked_in_two_places_is_not_judged_by_one_of_them(
    repository: Repository, served: tuple[Host, str]
) -> None:
    """The host names the later of two, which lacks Alice's entry as the head does; the merge would remove it."""
    host, url = served
    before = repository.git("rev-parse", "main")
    old, own = repository.git("rev-parse", "main~3"), "refs/heads/bobs-earlier"
    repository.commit({"docs.txt": b"Words.\n"}, own, old, day=9)  # Bob's earlier pull request
    earlier = repository.git("rev-parse", own)
    repository.commit({"docs.txt": b"Words.\n"}, "refs/heads/main", before, merges=earlier)
    try:
        repository.commit({ALICES: None, NEW: MINE}, "refs/pull/9/head", earlier, merges=before)
        host.pulls[9] = Pull(number=9, author="bob", branch="y", base_sha=before)
        api = connect(url, "o/r", "t", patience=HostPatience(api_retries=0, pause_s=0.0, limit_wait_s=1.0))
        problems = inspect_pull(api, api.pull(9), host.head_of(host.pulls[9])).problems

        merged = repository.git("merge-tree", "--write-tree", "main", "refs/pull/9/head")
        assert ALICES not in repository.git("ls-tree", "-r", "--name-only", merged)
        assert "it forked from main in several places; merge main into it" in "\n".join(problems)
        repository.commit(
            {ALICES: None}, "refs/pull/9/head", repository.git("rev-parse", "refs/pull/9/head"), merges="main"
        )
        again = inspect_pull(api, api.pull(9), host.head_of(host.pulls[9])).problems
        assert OTHERS in "\n".join(again)
    finally:
        repository.git("update-ref", "refs/heads/main", before)


@pytest.mark.parametrize("first", ["alice", "gone"])
def test_a_commit_of_anothers_that_was_in_an_own_pull_request_too_makes_nobody_its_owner(
    repository: Repository, served: tuple[Host, str], monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    """The host calls a pull request merged as soon as its commits are on main, by whatever merge."""
    host, _ = served
    merged = host.pulls[2]
    monkeypatch.setitem(host.pulls, 1, replace(host.pulls[1], author="bob", merge_commit=""))
    monkeypatch.setitem(host.pulls, 2, replace(merged, author=first))
    monkeypatch.setitem(host.pulls, 3, replace(merged, number=3, author="bob"))
    repository.git("update-ref", "refs/pull/3/head", merged.merge_commit)

    assert OTHERS in "\n".join(sent(repository, served, Hostile("theirs", {ALICES: MINE}, "")).problems)


@pytest.mark.parametrize("author", ["alice", "maria"])
@pytest.mark.parametrize("content", [submission(KERNEL), None])
def test_those_who_sent_an_entry_and_maintainers_change_and_withdraw_it(
    repository: Repository, served: tuple[Host, str], author: str, content: bytes | None
) -> None:
    case = Hostile("theirs", {ALICES: content}, "", author=author)

    assert () == sent(repository, served, case).problems


def test_a_withdrawn_name_stays_with_those_who_had_it(
    repository: Repository, served: tuple[Host, str]
) -> None:
    case = Hostile("again", {"submissions/alice-old.json": SENT}, "", author="alice")

    assert () == sent(repository, served, case).problems


def test_maintainers_change_what_is_recorded(repository: Repository, served: tuple[Host, str]) -> None:
    case = Hostile("struck", {"data/notices.json": b"[1]"}, "", author="maria")

    assert () == sent(repository, served, case).problems


@dataclass
class Emptying:
    """A host on which a stranger withdraws so many entries; `asked` are those whose owners it was asked for."""

    count: int
    asked: list[str] = field(default_factory=list)

    def trees(self, commit: str) -> Trees:
        there = {f"alice-{i}.json": TreeItem(mode="100644", sha="a") for i in range(self.count)}
        root = {"submissions": TreeItem(mode="040000", sha=commit)}
        return Trees(root=root, entries=there if commit == "main" else {})

    def merge_base(self, base_ref: str, head_sha: str) -> str:
        return base_ref

    def role(self, login: str) -> str:
        return "read"

    def owners(self, path: str, base_ref: str) -> frozenset[int]:
        self.asked.append(path)
        return frozenset({1})


@pytest.mark.parametrize(
    ("count", "asked", "words"),
    [(5, 5, [OTHERS] * 5), (6, 0, ["withdraw at most 5 entries a pull request; this withdraws 6"])],
)
def test_who_withdraws_a_crowd_of_entries_has_the_host_asked_for_no_owner(
    count: int, asked: int, words: list[str]
) -> None:
    host = Emptying(count)
    pull = SeenPull(
        number=9,
        state="open",
        is_merged=False,
        base_ref="main",
        base_sha="main",
        head_sha="head",
        author_id=2,
        author_login="bob",
    )
    problems = inspect_pull(host, pull, "head").problems

    assert asked == len(host.asked)
    assert all(word in problem for word, problem in zip(words, problems, strict=True))


def test_an_entry_is_withdrawn_or_renamed_in_a_pull_request_of_its_own() -> None:
    root = [{"submissions": TreeItem(mode="040000", sha=sha)} for sha in "ab"]
    before, after = ({f"{name}.json": TreeItem(mode="100644", sha="c")} for name in ("old", "new"))
    change = judge_changes(Trees(root=root[0], entries=before), Trees(root=root[1], entries=after))

    words = "send one entry a pull request; withdraw or rename another in a pull request of its own"
    assert (words,) == change.problems


def test_what_each_gets_is_listed_where_people_look() -> None:
    listed = (ROOT / "SECURITY.md").read_text("utf-8")

    for case in CASES:
        answer = f"*{case.words}*" if case.words else "nothing is said against it"
        assert f"| {case.title} | {answer} |\n" in listed
