"""A small copy of this repository on a host of its own, with people, pull requests and what befalls them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fakes.fake_github import Host, Pull
from fakes.runner import ROOT, Run, Runner

PEOPLE = {
    "alice": (1001, "read"),
    "maria": (1002, "maintain"),
    "mallory": (1003, "triage"),
    "bob": (1004, "read"),
}
COPIED = (".github", "README.md", "CHANGELOG.md", "leaderboard/stages/record.py")
CODE = ("leaderboard", "KernelBench/kernel_evaluator", "scripts", "site")
PROBLEMS = ("level1/19_*", "level1/23_*", "level1/36_*", "level2/40_*", "level3/1_*", "*.json")
SETTINGS = {
    'engine = "modal"': 'engine = "steady"',
    'gpu = "H100"': 'gpu = "CPU"',
    "[boards.H100]": "[boards.CPU-reduced]",
    "[boards.H100-bf16]": "[boards.CPU-bf16-reduced]",
    '"evaluate: H100-bf16"': '"evaluate: CPU-bf16-reduced"',
    'device = "cuda"': 'device = "cpu"',
    'sizes = "full"': 'sizes = "reduced"',
    "api_retries = 6": "api_retries = 2",
    "pause_s = 0.25": "pause_s = 0.0",
}
PAYLOADS = Path(__file__).parent / "payloads"
WHO = {
    "GIT_AUTHOR_NAME": "t",
    "GIT_AUTHOR_EMAIL": "t@t",
    "GIT_COMMITTER_NAME": "t",
    "GIT_COMMITTER_EMAIL": "t@t",
}
SKIPPED = ("__pycache__", "*.pyc", ".git", ".*_cache", "fingerprints.json")

Files = Mapping[str, bytes | None]
"""Contents by path; None removes a file."""


def submission(*kernels: tuple[str, str], name: str = "Alice's first", **metadata: object) -> bytes:
    """A submission whose kernels say in their first line how the steady engine shall judge them."""
    sources = {key: f"{line}\nclass ModelNew: pass\n" for key, line in kernels}
    return json.dumps({"metadata": {"display_name": name, **metadata}, "kernels": sources}, indent=1).encode()


def make_origin(folder: Path, engine: str = "steady", *, with_code: bool = False) -> Path:
    """Make the bare repository `o/r.git`, set to that engine on the CPU.

    Every job checks it out, so the code is in it only where jobs run what they checked out.
    """
    work, bare = folder / "work", folder / "o" / "r.git"
    for name in (*CODE, *COPIED) if with_code else COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, work / name, ignore=shutil.ignore_patterns(*SKIPPED))
        elif (ROOT / name).is_file():
            _copy(name, work)
    for pattern in PROBLEMS if with_code else ():
        for path in (ROOT / "KernelBench").glob(pattern):
            _copy(path.relative_to(ROOT), work)
    settings = work / ".github/evaluation.toml"
    text = settings.read_text("utf-8")
    for before, after in SETTINGS.items():
        assert before in text, before
        text = text.replace(before, after)
    settings.write_text(text.replace('engine = "steady"', f'engine = "{engine}"'))
    (work / "submissions").mkdir()
    (work / "submissions/README.md").write_text("Entries.\n")
    bare.parent.mkdir(parents=True)
    _git(work, "init", "-q", "-b", "main")
    _git(work, "add", "-A", "-f")
    _git(work, "commit", "-q", "-m", "A repository")
    _git(folder, "clone", "-q", "--bare", "--no-local", str(work), str(bare))  # one pack: less to copy
    for name in ("receive.autoGC", "maintenance.auto"):
        _git(bare, "config", name, "false")  # it lives for a test
    shutil.rmtree(work)
    return bare


@dataclass
class Project:
    """The host, its runner, and the deeds of people."""

    host: Host
    runner: Runner
    folder: Path

    def open_pull(self, files: Files, author: str = "alice", number: int = 7, **links: str) -> Pull:
        """Open a pull request that changes files against main; `links` adds symbolic links by path."""
        pull = Pull(number=number, author=author, branch=f"entry-{number}", base_sha=self.main)
        self.host.pulls[number] = pull
        self._commit(files, f"refs/pull/{number}/head", "main", links)
        return pull

    def push(self, pull: Pull, files: Files) -> str:
        """Push another commit to a pull request; gives the new head."""
        head = f"refs/pull/{pull.number}/head"
        return self._commit(files, head, head, {})

    def merge(self, pull: Pull) -> None:
        """Merge a pull request into main as one commit."""
        tree = self.host.git("merge-tree", "--write-tree", "main", f"refs/pull/{pull.number}/head")
        merged = _git(self.host.git_dir, "commit-tree", tree, "-p", "main", "-m", f"Merge {pull.number}")
        self.host.git("update-ref", "refs/heads/main", merged)
        pull.state, pull.merge_commit = "closed", merged

    def set_on_main(self, before: str, after: str) -> None:
        """Change a line of the settings on main."""
        text = self.on_main(".github/evaluation.toml")
        assert before in text
        self.commit_to_main({".github/evaluation.toml": text.replace(before, after).encode()})

    def commit_to_main(self, files: Files) -> None:
        """Change files on main."""
        self._commit(files, "main", "main", {})

    def check(self, pull: Pull) -> tuple[Run, Run]:
        """What happens on a push to a pull request: the check, and the comment about it."""
        head = self.host.head_of(pull)
        opened = payload("pull_request.opened", pull, head)
        checked = self.runner.run("validate.yml", "pull_request", opened, head=head)
        return checked, self.comment_on(pull, head)

    def comment_on(self, pull: Pull, head: str, action: str = "completed") -> Run:
        """Run the comment's workflow for a check of that head."""
        told = payload("workflow_run.completed", pull, head)
        told["action"] = action
        return self.runner.run("comment.yml", "workflow_run", told)

    def label(
        self,
        pull: Pull,
        sender: str = "maria",
        head: str | None = None,
        checkout: str = "main",
        name: str = "evaluate",
    ) -> Run:
        """Set the label and run what it starts; the payload has the head of that moment, as `checkout` has main."""
        pull.labels.append(name)
        labelled = payload("pull_request_target.labeled", pull, head or self.host.head_of(pull), sender)
        labelled["label"]["name"] = name
        return self.runner.run("evaluate.yml", "pull_request_target", labelled, head=checkout)

    def dispatch(self, pull: Pull, sender: str = "maria") -> Run:
        """Start the evaluation by hand."""
        given = payload("workflow_dispatch", pull, self.host.head_of(pull), sender)
        return self.runner.run("evaluate.yml", "workflow_dispatch", given)

    @property
    def main(self) -> str:
        """The commit that main is at."""
        return self.host.git("rev-parse", "main")

    def on_main(self, path: str) -> str | None:
        """A file's text on main; None where there is none."""
        try:
            return self.host.git("show", f"main:{path}")
        except subprocess.CalledProcessError:
            return None

    def result(self, entry: str) -> dict | None:
        """The recorded result of an entry on main."""
        text = self.on_main(f"data/results/CPU-reduced/{entry}.json")
        return json.loads(text) if text else None

    def comment(self, pull: Pull) -> str:
        """The one comment of the bot; fails where there is not exactly one."""
        (found,) = [item for item in pull.comments if item["user"]["login"] == "github-actions[bot]"]
        return found["body"]

    def states(self, head: str) -> list[str]:
        """The states of the commit status, oldest first."""
        return [status["state"] for status in self.host.statuses if status["sha"] == head]

    def _commit(self, files: Files, to: str, start: str, links: Mapping[str, str]) -> str:
        """Commit without a clone to work in, which would take ten processes of git."""
        ref = to if to.startswith("refs/") else f"refs/heads/{to}"
        said = f"commit {ref}\ncommitter t <t@t> now\ndata 8\nA change\nfrom {start}^0\n".encode()
        for path, content in files.items():
            said += f"D {_quoted(path)}\n".encode() if content is None else _changed(path, "100644", content)
        for path, target in links.items():
            said += _changed(path, "120000", target.encode())
        command = ["git", "fast-import", "--quiet", "--force", "--date-format=now"]
        subprocess.run(command, cwd=self.host.git_dir, input=said, check=True)
        return self.host.git("rev-parse", ref)


def _quoted(path: str) -> str:
    """A path as git's import reads it, whatever it holds."""
    return '"' + path.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n") + '"'


def _changed(path: str, mode: str, content: bytes) -> bytes:
    return f"M {mode} inline {_quoted(path)}\ndata {len(content)}\n".encode() + content + b"\n"


def payload(name: str, pull: Pull, head: str, sender: str = "maria") -> dict:
    """A recorded payload with this pull request, head and sender in place of the recorded ones."""
    data = json.loads((PAYLOADS / f"{name}.json").read_text("utf-8"))
    data["sender"] = {**data["sender"], "login": sender, "id": PEOPLE[sender][0]}
    author = {"login": pull.author, "id": PEOPLE[pull.author][0]}
    if "pull_request" in data:
        data["number"] = data["pull_request"]["number"] = pull.number
        data["pull_request"]["user"] |= author
        data["pull_request"]["head"] |= {"ref": pull.branch, "sha": head}
    if "workflow_run" in data:
        data["workflow_run"] |= {"head_sha": head, "head_branch": pull.branch}
        data["workflow_run"]["head_repository"]["owner"] |= author
    if "inputs" in data:
        data["inputs"] = {"pr": str(pull.number), "head_sha": head}
    return data


def _copy(name: str | Path, work: Path) -> None:
    (work / name).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(ROOT / name, work / name)


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), "-c", "core.hooksPath=/dev/null", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **WHO}, check=False)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout.strip()
