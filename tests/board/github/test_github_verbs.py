"""The parts of the verbs that need no whole run: settings, progress, pushes, and a command line off a runner."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from commandline import kbl
from fake_engine import FakeEngine
from kernel_evaluator.engines import epoch
from kernel_evaluator.problems.jobs import Settings
from kernel_evaluator.problems.problem_set import ProblemSet
from kernel_evaluator.records.rows import Environment
from kernel_evaluator.records.version import evaluator_sha256
from typer.testing import CliRunner

pytest.importorskip("github")

from fakes.fake_github import BOT, Fault, Host, Pull, serve

from leaderboard.cli import app
from leaderboard.files import store
from leaderboard.files.ledger import Spending, read_all
from leaderboard.files.submission import parse
from leaderboard.github.board import Asked, _left_of_month
from leaderboard.github.evaluation import BILL
from leaderboard.github.event import WorkflowRunner
from leaderboard.github.gitrepo import GitError, RemoteBranch, commit_to_remote
from leaderboard.github.host import HostError, blob_sha, connect
from leaderboard.github.publish import Publication, run_publish
from leaderboard.github.queue import QueueItem, QueuePosition, without
from leaderboard.github.queue_branch import change_queue
from leaderboard.github.say import Voice, queued_report, running_report
from leaderboard.github.settings import HostPatience, SettingsError, read_settings
from leaderboard.github.take import _unaffordable, run_take
from leaderboard.show.comment import PullReport, render_comment
from leaderboard.stages.evaluate import Evaluation, evaluate, load_problems
from leaderboard.stages.record import record_spending
from leaderboard.stages.upkeep import UpkeepError

ROOT = Path(__file__).resolve().parents[3]
SETTINGS = ROOT / ".github/evaluation.toml"
HEAD = "a" * 40
PATIENCE = HostPatience(api_retries=0, pause_s=0.0, limit_wait_s=1.0)
RAW = b'{"metadata": {"display_name": "Alice"}, "kernels": {"level_1_problem_19_sample_0": "class ModelNew: pass"}}'


WAITING = QueueItem(
    pull=7,
    head_sha=HEAD,
    board="H100",
    entry="alice",
    path="submissions/alice.json",
    blob_sha="b" * 40,
    submission_sha256="c" * 64,
    display_name="Alice",
    kernels=2,
    asked_by="maria",
    author=1,
    asked_at="2026-11-24T12:00:00+00:00",
    seconds=600.0,
    usd=1.234,
    max_usd=60.0,
)


def test_the_settings_agree_with_the_workflow_and_with_the_epoch() -> None:
    settings = read_settings(SETTINGS)
    workflow = yaml.safe_load((ROOT / ".github/workflows/evaluate.yml").read_text("utf-8"))

    board, half = settings.boards
    condition = workflow["jobs"]["gate"]["if"]
    assert f"github.event.label.name == '{board.label}'" in condition
    assert "startsWith(github.event.label.name, 'evaluate: ')" in condition
    assert half.label == f"evaluate: {half.name}" == "evaluate: H100-bf16"
    assert epoch.GPU == board.gpu == half.gpu
    price = epoch.price_of(board.engine, board.gpu)
    assert price is not None
    assert epoch.most_usd_between_looks(price) < settings.money.usd_per_evaluation


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("label =", "lable =", "boards.H100: missing \\['label'\\], unknown \\['lable'\\]"),
        ("[boards.H100]", "[boards.H200]", "boards.H200 must be called H100"),
        ("[boards.H100]", "[other.H100]", "unknown \\['other'\\]"),
        ('label = "evaluate"', 'label = "go"', "the label must be evaluate or evaluate: H100"),
        ("at_once = 4", "at_once = 0", "at_once must be 1 or more"),
        ('sizes = "full"', 'sizes = "tiny"', "sizes must be full or reduced"),
        ('precision = "bf16"', 'precision = "fp8"', "precision must be fp32 or bf16"),
        ('precision = "bf16"', 'precision = "fp32"', "boards.H100-bf16 must be called H100"),
        ("api_retries = 6", 'api_retries = "6"', "host: api_retries must be a whole number, got '6'"),
        ("at_once = 4", "at_once = true", "boards.H100: at_once must be a whole number, got True"),
        ("usd_per_month = 1000.0", "usd_per_month = -1", "money: usd_per_month must be 0 or more, got -1"),
        ("usd_per_month = 1000.0", "usd_per_month = nan", "money: usd_per_month must be a finite number"),
        (
            'engine = "modal"',
            'engine = "modall"',
            "boards.H100: engine must be local or modal or ray.*, got 'modall'",
        ),
        ('device = "cuda"', 'device = "cudda"', "boards.H100: device must be cuda or cpu, got 'cudda'"),
        ("[boards.H100]", "[[boards]]", "boards must be tables"),
        ("[boards.H100]", "[boards]\nH200 = 3\n[boards.H100]", "boards.H200: must be a table"),
        ("[host]", "[[host]]", "host: must be a table"),
        ('queue_ref = "queue"', 'queue_ref = "main"', "queue_ref must be a branch of its own"),
        ('results_ref = "main"', 'results_ref = "refs/heads/r"', "results_ref must be a branch's name"),
        ("# What evaluations", "\ufeff# What evaluations", "it begins with a byte-order mark: save it"),
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
    "verb", [["gate"], ["take", "--out", "job"], ["check"], ["report"], ["publish", "--result", "r"]]
)
def test_a_verb_off_a_runner_says_so_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: list[str]
) -> None:
    for name in [name for name in os.environ if name.startswith("GITHUB_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".github").mkdir()
    (tmp_path / ".github/evaluation.toml").write_bytes(SETTINGS.read_bytes())
    done = kbl("ci", *verb)

    assert 2 == done.returncode
    assert "not on a runner" in done.stdout


def test_a_job_that_is_not_there_is_named_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".github").mkdir()
    (tmp_path / ".github/evaluation.toml").write_bytes(SETTINGS.read_bytes())
    monkeypatch.chdir(tmp_path)
    said = CliRunner().invoke(app, ["ci", "evaluate", "--job", "nope", "--out", "out"])

    assert 2 == said.exit_code
    assert "nope/job.json: there is no such file; check the path" in said.output
    assert "Errno" not in said.output


def test_a_button_never_pushes_out_another_that_waits() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/board.yml").read_text("utf-8"))

    assert {"group": "${{ github.workflow }}", "queue": "max"} == workflow["concurrency"]


@pytest.fixture
def host(tmp_path: Path) -> Host:
    bare = tmp_path / "o" / "r.git"
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(bare)], check=True)
    return Host(
        git_dir=bare,
        people={"alice": (1, "read")},
        tokens={"t": {"pull-requests": "write"}},
    )


@pytest.fixture
def voice(host: Host) -> Iterator[Voice]:
    host.pulls[7] = Pull(number=7, author="alice", branch="entry", base_sha=HEAD)
    host.head_of = lambda pull: HEAD
    with serve(host) as url:
        yield Voice(host=connect(url, "o/r", "t", patience=PATIENCE), runner=runner_of(url))


def runner_of(api_url: str, server_url: str = "https://example.org") -> WorkflowRunner:
    return WorkflowRunner(
        api_url=api_url,
        server_url=server_url,
        repository="o/r",
        run_id=5,
        token="t",
        event_name="pull_request_target",
        payload={},
    )


def test_a_second_comment_of_ours_is_taken_away(host: Host, voice: Voice) -> None:
    body = render_comment(PullReport(state="waiting", head_sha=HEAD))
    host.pulls[7].comments += [{"id": n, "body": body, "user": BOT, "url": url_of(voice, n)} for n in (1, 2)]
    voice.host.put_comment(7, body + "more")

    assert [body + "more"] == [comment["body"] for comment in host.pulls[7].comments]


def test_a_label_that_cannot_be_set_keeps_nothing_from_being_said(host: Host, voice: Voice) -> None:
    host.faults = [Fault("POST", "/labels", 99, 403, {"message": "no"})]
    voice.report(7, PullReport(state="waiting", head_sha=HEAD), with_status=False)

    assert "waiting for a maintainer" in host.pulls[7].comments[0]["body"]
    assert [] == host.pulls[7].labels


def url_of(voice: Voice, number: int) -> str:
    return f"{voice.runner.api_url}/repos/o/r/issues/comments/{number}"


def test_our_comment_is_found_behind_pages_of_others(host: Host, voice: Voice) -> None:
    others = [{"id": n, "body": "+1", "user": {"login": "eve", "id": 9}} for n in range(1000, 1150)]
    host.pulls[7].comments += others
    for state_now in ("waiting", "running"):
        voice.host.put_comment(7, render_comment(PullReport(state=state_now, head_sha=HEAD)))

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
    return Publication(
        pull=7,
        head_sha=host.head_of(host.pulls[7]),
        entry="alice",
        board="CPU-reduced",
        max_usd=60.0,
        folder=tmp_path / "handed-on",
    )


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
    settings = read_settings(SETTINGS)
    board = replace(settings.boards[0], engine="local", gpu="CPU", sizes="reduced")
    settings = replace(settings, boards=(board,), host=PATIENCE)
    text = evaluation_on(Environment(device=device, gpu=gpu), tmp_path / "build")
    store.write_atomically(
        store.result_path(asked.folder, board.name, "alice"),
        text.replace('"gpu_seconds": ', f'"gpu_seconds": {sign}'),
    )
    with serve(host) as url:
        api = connect(url, "o/r", "p", patience=PATIENCE)
        run_publish(api, runner_of(url, f"file://{tmp_path}"), settings, asked)

    assert said in host.pulls[7].comments[0]["body"]
    recorded = host.git("ls-tree", "-r", "--name-only", "main", "data/")
    assert recorded == ("data/results/CPU-reduced/alice.json" if "recorded" in said else "")


@pytest.mark.parametrize("is_link", [False, True])
def test_rows_of_another_evaluator_and_a_link_in_the_results_place_are_not_published(
    host: Host, asked: Publication, tmp_path: Path, is_link: bool
) -> None:
    settings = read_settings(SETTINGS)
    board = replace(settings.boards[0], engine="local", gpu="CPU", sizes="reduced")
    settings = replace(settings, boards=(board,), host=PATIENCE)
    text = evaluation_on(Environment(device="a CPU", gpu="CPU"), tmp_path / "build")
    path = store.result_path(asked.folder, board.name, "alice")
    path.parent.mkdir(parents=True)
    if is_link:
        (tmp_path / "elsewhere.json").write_text(text)
        path.symlink_to(tmp_path / "elsewhere.json")
    else:
        path.write_text(text.replace(evaluator_sha256(), "a" * 64))
    with serve(host) as url:
        api = connect(url, "o/r", "p", patience=PATIENCE)
        run_publish(api, runner_of(url, f"file://{tmp_path}"), settings, asked)

    words = (
        "handed no result on" if is_link else "1 rows were judged by another evaluator than this one: refused"
    )
    assert words in host.pulls[7].comments[0]["body"]
    assert "" == host.git("ls-tree", "-r", "--name-only", "main", "data/")


def test_a_name_that_another_took_meanwhile_gets_no_result_and_what_was_spent_counts(
    host: Host, asked: Publication, tmp_path: Path
) -> None:
    git = ["git", "-C", str(tmp_path / "work"), "-c", "user.name=t", "-c", "user.email=t@t"]
    subprocess.run([*git, "checkout", "-q", "--detach", "HEAD~"], check=True)
    (tmp_path / "work/submissions").mkdir(exist_ok=True)
    (tmp_path / "work/submissions/alice.json").write_bytes(RAW.replace(b'"Alice"', b'"Another"'))
    subprocess.run([*git, "add", "submissions"], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "another's"], check=True)
    subprocess.run([*git, "push", "-q", str(host.git_dir), "HEAD:refs/heads/main"], check=True)
    with serve(host) as url:
        api = connect(url, "o/r", "p", patience=PATIENCE)
        settings = read_settings(SETTINGS)
        run_publish(api, runner_of(url, f"file://{tmp_path}"), settings, replace(asked, board="H100"))

    assert "can no longer be read at the commit that was evaluated" in host.pulls[7].comments[0]["body"]
    (recorded,) = host.git("ls-tree", "-r", "--name-only", "main", "data/").split()
    assert recorded.startswith("data/spending/")


def test_what_ends_while_the_next_is_chosen_counts_against_the_caps(
    host: Host, asked: Publication, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path / "work")
    settings = read_settings(SETTINGS)
    settings = replace(settings, host=PATIENCE, money=replace(settings.money, usd_per_month=100.0))
    ending = replace(WAITING, pull=9, entry="carol", run=3, due="2999-01-01T00:00:00+00:00")
    closed = replace(WAITING, pull=8, entry="bob", head_sha=asked.head_sha, asked_at="2026-11-01T00:00:00Z")
    mine = replace(WAITING, head_sha=asked.head_sha, blob_sha=blob_sha(RAW))
    host.pulls[8] = replace(host.pulls[7], number=8, state="closed")
    host.git("update-ref", "refs/pull/8/head", asked.head_sha)
    with serve(host) as url:
        api, runner = connect(url, "o/r", "p", patience=PATIENCE), runner_of(url, f"file://{tmp_path}")
        change_queue(settings, runner, lambda _: (ending, closed, mine), "three")
        told = api.put_status

        def while_it_ends(*status: str, **words: str) -> None:
            spent = Spending(day="2026-11-24", run=3, entry="carol", board="H100", usd=60.0)
            ledger = RemoteBranch(url=runner.clone_url, ref="main")
            commit_to_remote(ledger, lambda clone: record_spending(clone / "data", spent) or "spent")
            change_queue(settings, runner, lambda there: without(there, ending.ticket), "ended")
            told(*status, **words)

        monkeypatch.setattr(api, "put_status", while_it_ends)
        run_take(api, runner, settings, tmp_path / "job", datetime(2026, 11, 24, tzinfo=UTC))

    assert 40.0 == json.loads((tmp_path / "job/job.json").read_text())["max_usd"]


@pytest.mark.parametrize(("attempt", "left"), [(1, 60.0), (2, 20.0)])
def test_what_has_ended_and_still_stands_in_the_queue_counts_once(
    host: Host, asked: Publication, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attempt: int, left: float
) -> None:
    monkeypatch.chdir(tmp_path / "work")
    settings = read_settings(SETTINGS)
    settings = replace(settings, host=PATIENCE, money=replace(settings.money, usd_per_month=100.0))
    ending = replace(WAITING, pull=9, entry="carol", run=3, due="2999-01-01T00:00:00+00:00", max_usd=60.0)
    ending = replace(ending, attempt=attempt)
    mine = replace(WAITING, head_sha=asked.head_sha, blob_sha=blob_sha(RAW))
    spent = Spending(day="2026-11-24", run=3, entry="carol", board="H100", usd=20.0)
    with serve(host) as url:
        api, runner = connect(url, "o/r", "p", patience=PATIENCE), runner_of(url, f"file://{tmp_path}")
        change_queue(settings, runner, lambda _: (ending, mine), "two")
        ledger = RemoteBranch(url=runner.clone_url, ref="main")
        commit_to_remote(ledger, lambda clone: record_spending(clone / "data", spent) or "spent")
        run_take(api, runner, settings, tmp_path / "job", datetime(2026, 11, 24, tzinfo=UTC))

    assert left == json.loads((tmp_path / "job/job.json").read_text())["max_usd"]


@pytest.mark.parametrize(
    ("thought", "left", "starts"),
    [
        (None, 0.0, True),
        (10.0, 10.0, True),
        (10.0, 9.99, False),
        (100.0, 60.0, True),
        (100.0, 59.99, False),
        (0.2, 1.0, True),
        (0.2, 0.99, False),
        (5.0, -3.0, False),
    ],
)
def test_an_evaluation_needs_what_it_is_thought_to_cost_or_what_one_may_and_a_dollar_at_least(
    thought: float | None, left: float, starts: bool
) -> None:
    settings = read_settings(SETTINGS)
    assert 60.0 == settings.money.usd_per_evaluation
    why = _unaffordable(replace(WAITING, usd=thought), left, SimpleNamespace(settings=settings))

    assert starts == (why == "")
    assert (
        starts or f"thought to cost ${thought:.2f}, and ${max(left, 0.0):.2f} are left within the caps" in why
    )


def test_what_is_left_of_a_month_counts_what_was_spent_in_that_month_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    spent = Spending(day="2026-11-03", run=1, entry="alice", board="H100", usd=100.0)
    for one in (spent, replace(spent, day="2026-10-31", run=2, usd=50.0), replace(spent, run=3, usd=1.5)):
        record_spending(Path("data"), one)

    assert 898.5 == _left_of_month(read_settings(SETTINGS), datetime(2026, 11, 24, tzinfo=UTC))


@pytest.mark.parametrize("account", ["", "alice", "-1", "1001x", "١"])
def test_an_account_is_given_by_its_number(account: str) -> None:
    assert 1001 == Asked.of({"VERB": "ban", "ACCOUNT": " 1001 "}).number
    with pytest.raises(UpkeepError, match="the account must be given by its number"):
        _ = Asked(verb="ban", account=account).number


def test_who_waits_is_told_the_place_the_time_and_the_price_and_who_is_at_work_the_most_it_costs() -> None:
    done_at = datetime(2026, 11, 24, 15, 30, tzinfo=UTC)
    place = QueuePosition(number=3, waiting=4, done_at=done_at)
    waiting = queued_report(WAITING, place, runner_of("x"))
    told = "2 kernels for `H100`: number 3 of 4 that wait. It may be done by 2026-11-24 15:30 UTC"

    assert ("queued", f"{told}, and cost about $1.23.") == (waiting.state, waiting.remark)
    assert f"{told}." == queued_report(replace(WAITING, usd=None), place, runner_of("x")).remark
    assert "2 kernels on `H100`, for at most $60.00." == running_report(WAITING, runner_of("x")).remark


@pytest.mark.parametrize(
    "bill",
    [
        '{"usd": 120.1, "seconds": 1.0, "calls": 1}',
        '{"usd": 0.1, "seconds": 1.0, "calls": 1e300}',
        '{"usd": 0.1, "seconds": "inf", "calls": 1}',
        '{"usd": 0.1, "seconds": -1.0, "calls": 1}',
    ],
)
def test_a_forged_bill_counts_as_the_cap_and_leaves_the_ledger_readable(
    host: Host, asked: Publication, tmp_path: Path, bill: str
) -> None:
    asked.folder.mkdir()
    (asked.folder / BILL).write_text(bill)
    settings = read_settings(SETTINGS)
    with serve(host) as url:
        api = connect(url, "o/r", "p", patience=PATIENCE)
        run_publish(api, runner_of(url, f"file://{tmp_path}"), settings, replace(asked, board="H100"))

    month = host.git("ls-tree", "-r", "--name-only", "main", "data/spending")
    ledger = tmp_path / "ledger" / month.removeprefix("data/")
    ledger.parent.mkdir(parents=True)
    ledger.write_text(host.git("show", f"main:{month}"))
    assert [(60.0, False)] == [(spent.usd, spent.metered) for spent in read_all(tmp_path / "ledger")]


def test_a_bill_that_came_back_is_noted_though_the_host_answers_nothing(
    host: Host, asked: Publication, tmp_path: Path
) -> None:
    asked.folder.mkdir()
    (asked.folder / BILL).write_text('{"usd": 0.5, "seconds": 9.0, "calls": 1}')
    host.faults = [Fault("GET", "/pulls/7", 99, 500)]
    with serve(host) as url, pytest.raises(HostError):
        api = connect(url, "o/r", "p", patience=PATIENCE)
        runner = runner_of(url, f"file://{tmp_path}")
        run_publish(api, runner, read_settings(SETTINGS), replace(asked, board="H100"))

    month = host.git("ls-tree", "-r", "--name-only", "main", "data/spending")
    (noted,) = json.loads(host.git("show", f"main:{month}"))
    assert (0.5, True) == (noted["usd"], noted["metered"])


@pytest.fixture
def remote(tmp_path: Path) -> RemoteBranch:
    bare, work = tmp_path / "host.git", tmp_path / "work"
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@t"]
    subprocess.run([*git, "init", "-q", "-b", "main", str(work)], check=True)
    subprocess.run([*git, "-C", str(work), "commit", "-q", "--allow-empty", "-m", "first"], check=True)
    subprocess.run([*git, "clone", "-q", "--bare", str(work), str(bare)], check=True)
    return RemoteBranch(url=f"file://{bare}", ref="main", start_ref="main", token="secret-of-the-test")


def adding(name: str, before_push=lambda: None):
    def change(clone: Path) -> str:
        (clone / name).write_text(name)
        before_push()
        return f"Add {name}"

    return change


def files(remote: RemoteBranch, ref: str = "main") -> set[str]:
    listed = ["git", "-C", remote.url.removeprefix("file://"), "ls-tree", "--name-only", ref]
    return set(subprocess.run(listed, capture_output=True, text=True, check=True).stdout.split())


def test_who_loses_the_race_begins_again_on_what_the_other_pushed(remote: RemoteBranch) -> None:
    rivals = [f"rival-{number}" for number in range(9)]  # as where ten pull requests are labelled at once
    all_of_them = {"mine", *rivals}

    def overtaken() -> None:
        if rivals:
            commit_to_remote(remote, adding(rivals.pop()))

    waited: list[float] = []
    assert commit_to_remote(remote, adding("mine", overtaken), sleep=waited.append)

    assert all_of_them == files(remote)
    assert 9 == len(set(waited)), "nobody waits as long as another"


def test_no_change_is_no_commit(remote: RemoteBranch) -> None:
    commit_to_remote(remote, adding("same"))

    assert not commit_to_remote(remote, adding("same"))


def test_results_may_go_to_a_branch_that_does_not_exist_yet(remote: RemoteBranch) -> None:
    elsewhere = RemoteBranch(url=remote.url, ref="results", start_ref="main")
    commit_to_remote(elsewhere, adding("mine"))

    assert {"mine"} == files(remote, "results")
    assert set() == files(remote)


@pytest.mark.parametrize("ref", ["main", "results"])
def test_no_hook_that_a_machine_gives_its_clones_runs(
    remote: RemoteBranch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ref: str
) -> None:
    hook = tmp_path / "template/hooks/pre-push"
    hook.parent.mkdir(parents=True)
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    shim = tmp_path / "bin/git"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec {shutil.which("git")} -c init.templateDir={hook.parents[1]} "$@"\n')
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", f"{shim.parent}:{os.environ['PATH']}")

    assert commit_to_remote(RemoteBranch(url=remote.url, ref=ref), adding("mine"))


def test_what_a_machine_sets_for_its_own_clones_changes_nothing(
    remote: RemoteBranch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = tmp_path / "hooks/pre-push"
    hook.parent.mkdir()
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    (tmp_path / ".gitconfig").write_text(f"[core]\n  hooksPath = {hook.parent}\n[commit]\n  gpgSign = true\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))

    assert commit_to_remote(remote, adding("mine"))


@pytest.mark.parametrize(("status", "tries"), [(503, 2), (403, 0)])
def test_a_host_that_is_away_for_a_while_is_asked_again_and_one_that_refuses_is_not(
    remote: RemoteBranch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, tries: int
) -> None:
    real, left = shutil.which("git"), tmp_path / "left"
    left.write_text("xx")
    shim = tmp_path / "bin/git"
    shim.parent.mkdir()
    shim.write_text(f"""#!/bin/sh
case "$*" in *push*) if [ -s {left} ]; then
  truncate -s -1 {left}; echo "fatal: unable to access: The requested URL returned error: {status}" >&2; exit 128
fi;; esac
exec {real} "$@"
""")
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", f"{shim.parent}:{os.environ['PATH']}")
    waited: list[float] = []
    with nullcontext() if tries else pytest.raises(GitError, match="error: 403"):
        commit_to_remote(remote, adding("mine"), sleep=waited.append)

    assert tries == len(waited)
    assert ({"mine"} if tries else set()) == files(remote)


def test_the_token_stands_on_no_command_line_and_in_no_file(remote: RemoteBranch, tmp_path: Path) -> None:
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
