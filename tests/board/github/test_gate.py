"""What the gate refuses before anything is queued, and in which words."""

from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

pytest.importorskip("github")

from leaderboard.github.changes import TreeItem, Trees
from leaderboard.github.event import WorkflowRunner
from leaderboard.github.gate import run_gate
from leaderboard.github.host import Pull
from leaderboard.github.settings import read_settings

SETTINGS = read_settings(Path(__file__).resolve().parents[3] / ".github/evaluation.toml")
HEAD = "a" * 40
ENTRY = b'{"metadata": {"display_name": "Alice"}, "kernels": {"level_1_problem_19_sample_0": "class ModelNew: pass"}}'
OPEN = Pull(
    number=7,
    state="open",
    is_merged=False,
    base_ref="main",
    base_sha="before",
    head_sha=HEAD,
    author_id=1,
    author_login="alice",
)
MERGED = replace(OPEN, state="closed", is_merged=True)


@dataclass
class Host:
    """A host that knows one pull request: the entries at each commit, by the content's name, and what was said."""

    pull_request: Pull
    entries: dict[str, dict[str, str]]
    roles: dict[str, str] = field(default_factory=lambda: {"maria": "write", "mallory": "triage"})
    said: str = ""

    def pull(self, number: int) -> Pull:
        return self.pull_request

    def role(self, login: str) -> str:
        return self.roles.get(login, "none")

    def trees(self, commit: str) -> Trees:
        there = {name: TreeItem(mode="100644", sha=sha) for name, sha in self.entries[commit].items()}
        return Trees(root={"submissions": TreeItem(mode="040000", sha=str(there))}, entries=there)

    def merge_base(self, base_ref: str, head_sha: str) -> str:
        return "before"

    def owners(self, path: str, base_ref: str) -> frozenset[int]:
        return frozenset({1})

    def blob(self, sha: str) -> bytes:
        return ENTRY

    def comment(self, number: int) -> str:
        return ""

    def put_comment(self, number: int, body: str) -> None:
        self.said = body


def asked(host: Host, *, by_hand: bool = False, actor: str = "maria") -> bool:
    event = {"pull_request": {"number": 7, "head": {"sha": HEAD}}, "label": {"name": "evaluate"}}
    payload = {"inputs": {"pr": "7", "head_sha": HEAD}} if by_hand else event
    runner = WorkflowRunner(
        api_url="https://api.example.org",
        server_url="file:///nowhere",
        repository="o/r",
        run_id=5,
        token="t",
        event_name="workflow_dispatch" if by_hand else "pull_request_target",
        payload={**payload, "sender": {"login": "maria"}},
        actor=actor,
    )
    return run_gate(host, runner, SETTINGS)


ONE, OTHER = {"alice.json": "1"}, {"alice.json": "2"}


@pytest.mark.parametrize(
    ("pull", "entries", "words"),
    [
        (replace(OPEN, state="closed"), ({}, ONE, {}), "The pull request is closed"),
        (MERGED, ({}, ONE, ONE), "The pull request is closed"),
        (OPEN, (ONE, ONE, ONE), "This pull request sends no entry under `submissions/`"),
        (OPEN, (ONE, {}, ONE), "This pull request withdraws entries, so there is nothing to evaluate."),
    ],
    ids=["closed", "merged, and labelled", "other work", "a withdrawal"],
)
def test_a_label_where_there_is_nothing_to_evaluate_is_told_so(
    pull: Pull, entries: tuple[dict[str, str], ...], words: str
) -> None:
    host = Host(pull, dict(zip(("before", HEAD, "main"), entries, strict=True)))

    assert not asked(host)
    assert words in host.said


@pytest.mark.parametrize("now", [OTHER, {}], ids=["changed", "withdrawn"])
def test_a_merged_entry_that_is_another_by_now_is_not_evaluated_by_hand(now: dict[str, str]) -> None:
    host = Host(MERGED, {"before": {}, HEAD: ONE, "main": now})

    assert not asked(host, by_hand=True)
    assert "The merged entry has been changed or withdrawn since, so nothing was started." in host.said


def test_who_starts_a_maintainers_run_again_needs_write_access_too() -> None:
    host = Host(OPEN, {"before": {}, HEAD: ONE, "main": {}})

    assert not asked(host, actor="mallory")
    assert "`mallory` has the role `triage`" in host.said
