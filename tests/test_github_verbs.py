"""The parts of the verbs that need no whole run: settings, progress, pushes, and a command line off a runner."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from fake_engine import FakeEngine
from kernelbench.engines import epoch
from kernelbench.jobs import Settings
from kernelbench.problems import ProblemSet
from kernelbench.rows import Environment

pytest.importorskip("github")

from fakes.fake_github import BOT, Host, Pull, serve

from leaderboard import store
from leaderboard.comment import Report, render_comment
from leaderboard.evaluate import Evaluation, evaluate, load_problems
from leaderboard.github.changes import ChangedFile, judge_changes
from leaderboard.github.event import Runner
from leaderboard.github.gitrepo import Remote, commit_to_remote
from leaderboard.github.host import connect
from leaderboard.github.job import EvaluationJob
from leaderboard.github.progress import follow
from leaderboard.github.publish import Publication, run_publish
from leaderboard.github.say import Voice
from leaderboard.github.settings import Patience, SettingsError, read_settings
from leaderboard.submission import parse

ROOT = Path(__file__).resolve().parents[1]
SETTINGS = ROOT / ".github/evaluation.toml"
HEAD = "a" * 40
PATIENCE = Patience(api_retries=0, pause_s=0.0, progress_every_s=0.0)
RAW = b'{"metadata": {"display_name": "Alice"}, "kernels": {"level_1_problem_19_sample_0": "class ModelNew: pass"}}'


def test_the_settings_agree_with_the_workflow_and_with_the_epoch() -> None:
    settings = read_settings(SETTINGS)
    workflow = yaml.safe_load((ROOT / ".github/workflows/evaluate.yml").read_text("utf-8"))

    assert f"github.event.label.name == '{settings.label}'" in workflow["jobs"]["gate"]["if"]
    assert epoch.GPU == settings.gpu
    assert epoch.price_of(settings.engine, settings.gpu) is not None


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("label =", "lable =", "unknown settings \\['lable'\\]"),
        ('sizes = "full"', 'sizes = "tiny"', "sizes must be full or reduced"),
        ("api_retries = 6", 'api_retries = "6"', "api_retries must be int"),
        ('gpu = "H100"', "gpu = ", "Invalid value"),
    ],
)
def test_a_mistake_in_the_settings_is_named(tmp_path: Path, before: str, after: str, words: str) -> None:
    text = SETTINGS.read_text("utf-8")
    assert before in text
    (tmp_path / "s.toml").write_text(text.replace(before, after))

    with pytest.raises(SettingsError, match=words):
        read_settings(tmp_path / "s.toml")


@pytest.mark.parametrize(
    "verb", [["gate", "--out", "job"], ["check"], ["report"], ["publish", "--result", "r"]]
)
def test_a_verb_off_a_runner_says_so_in_one_line(tmp_path: Path, verb: list[str]) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GITHUB_")}
    (tmp_path / ".github").mkdir()
    (tmp_path / ".github/evaluation.toml").write_bytes(SETTINGS.read_bytes())
    done = subprocess.run(
        [sys.executable, "-m", "leaderboard", "ci", *verb],
        cwd=tmp_path,
        env={**environment, "PYTHONPATH": f"{ROOT}:{ROOT / 'KernelBench'}"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert 2 == done.returncode
    assert "not on a runner" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


@pytest.fixture
def host(tmp_path: Path) -> Host:
    bare = tmp_path / "o" / "r.git"
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(bare)], check=True)
    return Host(
        git_dir=bare,
        people={"alice": (1, "read")},
        tokens={"t": {"actions": "read", "pull-requests": "write"}},
    )


@pytest.fixture
def voice(host: Host) -> Iterator[Voice]:
    host.pulls[7] = Pull(number=7, author="alice", branch="entry", base_sha=HEAD)
    host.head_of = lambda pull: HEAD
    with serve(host) as url:
        yield Voice(host=connect(url, "o/r", "t", patience=PATIENCE), runner=runner_of(url))


def runner_of(api_url: str, server_url: str = "https://example.org") -> Runner:
    return Runner(
        api_url=api_url,
        server_url=server_url,
        repository="o/r",
        run_id=5,
        token="t",
        event_name="pull_request_target",
        payload={},
    )


def evaluating(status: str, *steps: str) -> list[dict]:
    names = ["Set up job", "Judge level 1", "Judge level 2", "Hand the result on"]
    states = dict(zip(names[1:3], steps, strict=True))
    listed = [{"name": name, **state(states.get(name, "success"))} for name in names]
    return [
        {"name": "Gate", **state("success"), "steps": []},
        {"name": "Evaluate", **state(status), "steps": listed},
    ]


def state(status: str) -> dict:
    running = status in ("queued", "in_progress")
    return {"status": status if running else "completed", "conclusion": None if running else status}


def test_the_comment_follows_the_steps_and_stops_with_the_job(host: Host, voice: Voice) -> None:
    moments = [
        evaluating("in_progress", "in_progress", "queued"),
        evaluating("in_progress", "in_progress", "queued"),
        evaluating("in_progress", "success", "in_progress"),
        evaluating("success", "success", "success"),
    ]
    shown: list[str] = []

    def next_moment(_seconds: float) -> None:
        shown.append(host.pulls[7].comments[0]["body"] if host.pulls[7].comments else "")
        host.runs[5] = moments.pop(0)

    host.runs[5] = []
    job = EvaluationJob(pull=7, head_sha=HEAD, entry="alice", blob_sha=HEAD, submission_sha256="")
    follow(voice, read_settings(SETTINGS), job, parse(RAW, "alice.json"), sleep=next_moment)
    shown.append(host.pulls[7].comments[0]["body"])

    done = [body.partition(" steps done")[0].rpartition("\n")[2] for body in shown]
    assert ["", "0 of 2", "0 of 2", "1 of 2", "2 of 2"] == done
    assert "| `Judge level 1` | running |" in shown[1]
    assert 3 == sum(method in ("POST", "PATCH") and "comments" in path for method, path in host.requests)


def test_a_second_comment_of_ours_is_taken_away(host: Host, voice: Voice) -> None:
    body = render_comment(Report(state="waiting", head_sha=HEAD))
    host.pulls[7].comments += [{"id": n, "body": body, "user": BOT, "url": url_of(voice, n)} for n in (1, 2)]
    voice.host.put_comment(7, body + "more")

    assert [body + "more"] == [comment["body"] for comment in host.pulls[7].comments]


def url_of(voice: Voice, number: int) -> str:
    return f"{voice.runner.api_url}/repos/o/r/issues/comments/{number}"


def test_our_comment_is_found_behind_pages_of_others(host: Host, voice: Voice) -> None:
    others = [{"id": n, "body": "+1", "user": {"login": "eve", "id": 9}} for n in range(1000, 1150)]
    host.pulls[7].comments += others
    for state_now in ("waiting", "running"):
        voice.host.put_comment(7, render_comment(Report(state=state_now, head_sha=HEAD)))

    assert 151 == len(host.pulls[7].comments)


@pytest.fixture
def asked(host: Host, tmp_path: Path) -> Publication:
    """Pull request 7 sends RAW; what an evaluation handed on lies in the folder."""
    work = tmp_path / "work"
    git = ["git", "-C", str(work), "-c", "user.name=t", "-c", "user.email=t@t"]
    subprocess.run(["git", "init", "-q", str(work)], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "first"], check=True)
    (work / "submissions").mkdir()
    (work / "submissions/alice.json").write_bytes(RAW)
    subprocess.run([*git, "add", "submissions"], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "an entry"], check=True)
    pushed = ["HEAD~:refs/heads/main", "HEAD:refs/pull/7/head"]
    subprocess.run([*git, "push", "-q", str(host.git_dir), *pushed], check=True)
    host.pulls[7] = Pull(number=7, author="alice", branch="entry", base_sha=host.git("rev-parse", "main"))
    host.tokens["p"] = dict.fromkeys(("contents", "pull-requests", "statuses"), "write")
    return Publication(pull=7, head_sha=host.head_of(host.pulls[7]), folder=tmp_path / "handed-on")


def evaluation_on(environment: Environment, folder: Path) -> str:
    """The result file of RAW's evaluation at reduced sizes."""
    submission = parse(RAW, "alice.json")
    evaluation = Evaluation(
        submission=submission,
        problems=load_problems(ProblemSet(), submission.kernels, "reduced"),
        settings=Settings(sizes="reduced"),
        gpu=environment.gpu,
        work_root=folder,
    )
    return evaluate(evaluation, FakeEngine(environment), lambda row: None).path.read_text()


@pytest.mark.parametrize(
    ("gpu", "device", "sign", "said"),
    [
        ("CPU", "a CPU", "", "The result is recorded"),
        ("CPU", "a CPU", "-", "The evaluation's result was refused"),
        ("H200", "NVIDIA H200", "", "The result is for another board than `CPU-reduced`: refused"),
    ],
)
def test_a_result_for_another_board_or_with_a_negative_bill_is_not_published(
    host: Host, asked: Publication, tmp_path: Path, gpu: str, device: str, sign: str, said: str
) -> None:
    settings = replace(read_settings(SETTINGS), engine="local", gpu="CPU", sizes="reduced", host=PATIENCE)
    text = evaluation_on(Environment(device=device, gpu=gpu), tmp_path / "build")
    store.write_atomically(
        store.result_path(asked.folder, settings.board, "alice"),
        text.replace('"gpu_seconds": ', f'"gpu_seconds": {sign}'),
    )
    with serve(host) as url:
        api = connect(url, "o/r", "p", patience=PATIENCE)
        run_publish(api, runner_of(url, f"file://{tmp_path}"), settings, asked)

    assert said in host.pulls[7].comments[0]["body"]
    recorded = host.git("ls-tree", "-r", "--name-only", "main", "data/")
    assert recorded == ("data/results/CPU-reduced/alice.json" if "recorded" in said else "")


@pytest.fixture
def remote(tmp_path: Path) -> Remote:
    bare, work = tmp_path / "host.git", tmp_path / "work"
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@t"]
    subprocess.run([*git, "init", "-q", "-b", "main", str(work)], check=True)
    subprocess.run([*git, "-C", str(work), "commit", "-q", "--allow-empty", "-m", "first"], check=True)
    subprocess.run([*git, "clone", "-q", "--bare", str(work), str(bare)], check=True)
    return Remote(url=f"file://{bare}", ref="main", start_ref="main", token="secret-of-the-test")


def adding(name: str, before_push=lambda: None):
    def change(clone: Path) -> str:
        (clone / name).write_text(name)
        before_push()
        return f"Add {name}"

    return change


def files(remote: Remote, ref: str = "main") -> set[str]:
    listed = ["git", "-C", remote.url.removeprefix("file://"), "ls-tree", "--name-only", ref]
    return set(subprocess.run(listed, capture_output=True, text=True, check=True).stdout.split())


def test_who_loses_the_race_begins_again_on_what_the_other_pushed(remote: Remote) -> None:
    rivals = ["second", "first"]

    def overtaken() -> None:
        if rivals:
            commit_to_remote(remote, adding(rivals.pop()))

    waited: list[float] = []
    assert commit_to_remote(remote, adding("mine", overtaken), sleep=waited.append)

    assert {"mine", "first", "second"} == files(remote)
    assert 2 == len(waited)


def test_no_change_is_no_commit(remote: Remote) -> None:
    commit_to_remote(remote, adding("same"))

    assert not commit_to_remote(remote, adding("same"))


def test_results_may_go_to_a_branch_that_does_not_exist_yet(remote: Remote) -> None:
    elsewhere = Remote(url=remote.url, ref="results", start_ref="main")
    commit_to_remote(elsewhere, adding("mine"))

    assert {"mine"} == files(remote, "results")
    assert set() == files(remote)


def test_the_token_stands_on_no_command_line_and_in_no_file(remote: Remote, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    shim = tmp_path / "bin/git"
    shim.parent.mkdir()
    real = subprocess.run(["which", "git"], capture_output=True, text=True, check=True).stdout.strip()
    shim.write_text(f'#!/bin/sh\necho "$@" >> {seen}\nexec {real} "$@"\n')
    shim.chmod(0o755)
    path = os.environ["PATH"]
    os.environ["PATH"] = f"{shim.parent}:{path}"
    try:
        commit_to_remote(remote, adding("mine"))
    finally:
        os.environ["PATH"] = path

    assert "push" in seen.read_text()
    assert "secret-of-the-test" not in seen.read_text()


def changed(*facts: tuple[str, str] | tuple[str, str, str]) -> list[ChangedFile]:
    return [
        ChangedFile(status=status, path=path, previous_path=previous[0] if previous else None)
        for status, path, *previous in facts
    ]


@pytest.mark.parametrize(
    ("files_changed", "kind", "problems"),
    [
        (changed(("added", "submissions/a.json")), "entry", 0),
        (changed(("modified", "README.md"), ("added", "submissions/README.md")), "code", 0),
        (changed(("removed", "submissions/a.json"), ("removed", "submissions/b.json")), "withdrawal", 0),
        (changed(("added", "submissions/a.json"), ("added", "submissions/b.json")), "entry", 1),
        (changed(("added", "submissions/a.json"), ("removed", "submissions/b.json")), "entry", 1),
        (changed(("renamed", "submissions/b.json", "submissions/a.json")), "entry", 1),
        (changed(("renamed", "submissions/b.json", "docs/a.json")), "entry", 2),
        (changed(("added", "submissions/a.txt")), "entry", 1),
        (changed(("added", "submissions/x/a.json")), "entry", 1),
        (changed(("added", "submissions")), "entry", 1),
        (changed(*(("added", f"submissions/{i}.json") for i in range(300))), "entry", 2),
    ],
)
def test_what_a_pull_request_may_change(files_changed: list[ChangedFile], kind: str, problems: int) -> None:
    change = judge_changes(files_changed)

    assert kind == change.kind
    assert problems == len(change.problems), change.problems
