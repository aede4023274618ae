"""From a contributor's branch to a result on main: the workflows' own command lines, a git host, a stateful API."""

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("github")

from fakes.fake_github import Fault, Host, serve
from fakes.project import PEOPLE, Project, make_origin, payload, submission
from fakes.runner import SECRETS, Run, Runner

from leaderboard.files.reviews import read_reviews
from leaderboard.github import queue

GOOD = submission(
    ("level_1_problem_19_sample_0", "# speedup 2.0"),
    ("level_1_problem_23_sample_0", "# status mismatch"),
    ("level_2_problem_40_sample_0", "# speedup 1.5"),
)
PATH = "submissions/alice-first.json"
RECORDED = "data/results/CPU-reduced/alice-first.json"


BOBS = {"submissions/bob-second.json": GOOD.replace(b"Alice's first", b"Bob's")}


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_origin(tmp_path_factory.mktemp("origin"))


@pytest.fixture
def project(origin: Path, tmp_path: Path, kbl_server: Path) -> Iterator[Project]:
    shutil.copytree(origin, tmp_path / "o" / "r.git")
    with project_of(tmp_path / "o" / "r.git", tmp_path, kbl_server) as made:
        yield made


@pytest.fixture
def project_with_code(tmp_path: Path) -> Iterator[Project]:
    with project_of(make_origin(tmp_path, with_code=True), tmp_path, None) as made:
        yield made


@contextmanager
def project_of(bare: Path, folder: Path, kbl: Path | None) -> Iterator[Project]:
    host = Host(git_dir=bare, people=dict(PEOPLE))
    with serve(host) as url:
        yield Project(host=host, runner=Runner(host, url, folder / "runs", kbl), folder=folder)


def test_a_contribution_travels_from_branch_to_board(project_with_code: Project) -> None:
    project = project_with_code
    project.runner.with_site = True
    pull = project.open_pull({PATH: GOOD})
    head = project.host.head_of(pull)

    checked, _ = project.check(pull)
    assert {"validate": "success"} == checked.results
    assert "waiting for a maintainer" in project.comment(pull)
    assert ["state: waiting"] == pull.labels

    run = project.label(pull)

    assert {"success"} == set(run.results.values())
    result = project.result("alice-first")
    assert ["correct", "mismatch", "correct"] == [row["status"] for row in result["rows"]]
    comment = project.comment(pull)
    assert "Evaluated: `Alice's first`" in comment
    assert "rank 1 of 1" in comment
    assert f"/o/r/blob/{head}/{PATH}?plain=1#L" in comment
    assert "Used 5 GPU-seconds" in comment, "two are judged a second time"
    assert ["pending", "pending", "success"] == project.states(head)
    assert ["state: evaluated"] == pull.labels
    assert (run.site / "index.html").is_file()

    project.merge(pull)
    rebuilt = project.runner.run("pages.yml", "push", {"sender": {"login": "maria"}})
    assert "Alice&#39;s first" in (rebuilt.site / "index.html").read_text()


def test_only_the_job_that_talks_to_the_engine_sees_its_secret(project: Project) -> None:
    run = project.label(project.open_pull({PATH: GOOD}))
    secret = SECRETS["modal"]["MODAL_TOKEN_SECRET"]

    seeing = {
        job.id for job in run.jobs.values() for step in job.steps if secret in step.environment.values()
    }
    assert {"evaluate"} == seeing
    assert not any("GITHUB_TOKEN" in step.environment for step in run.jobs["evaluate"].steps)


def test_the_same_result_twice_is_committed_once(project: Project) -> None:
    pull = project.open_pull({PATH: GOOD})
    project.label(pull)
    before = project.main
    run = project.label(pull)

    assert before == project.main
    assert {"0"} == set(re.findall(r"(\d+) judged now", run.jobs["evaluate"].log))
    assert "Evaluated" in project.comment(pull)


def test_what_was_recorded_while_a_run_waited_is_not_judged_again(project: Project) -> None:
    pull = project.open_pull({PATH: GOOD})
    at_the_label = project.main
    project.label(pull)
    run = project.label(pull, checkout=at_the_label)

    assert {"0"} == set(re.findall(r"(\d+) judged now", run.jobs["evaluate"].log))
    assert "success" == run.results["publish"]


def test_an_evaluation_starts_by_hand_too(project: Project) -> None:
    pull = project.open_pull({PATH: GOOD})
    run = project.dispatch(pull)

    assert "success" == run.results["publish"]
    assert project.result("alice-first")


def test_a_merged_entry_can_be_evaluated_again_by_hand(project: Project) -> None:
    pull = project.open_pull({PATH: GOOD})
    project.merge(pull)
    run = project.dispatch(pull)

    assert "success" == run.results["publish"]
    assert project.result("alice-first")


def test_an_invalid_file_is_told_where_and_how_to_mend_it(project: Project) -> None:
    bad = GOOD.replace(b"level_1_problem_19", b"level_1_problem_190")
    pull = project.open_pull({PATH: bad})
    checked, _ = project.check(pull)
    run = project.label(pull)

    assert {"validate": "failure"} == checked.results
    assert "::error file=submissions/alice-first.json" in checked.log
    assert "problem of level 1 must be 1-100" in project.comment(pull)
    assert "failure" == run.results["gate"]
    assert "skipped" == run.results["evaluate"] == run.results["publish"]
    assert ["state: invalid"] == pull.labels


OVERWRITING = {PATH: GOOD.replace(b"2.0", b"9.0")}


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({PATH: GOOD, "submissions/alice-second.json": GOOD}, "one entry a pull request"),
        (
            {PATH: GOOD, "leaderboard/stages/record.py": b"print()"},
            "also changes leaderboard",
        ),
        ({PATH: GOOD, "data/results/H100/alice-first.json": b"{}"}, "also changes data"),
        ({"submissions/deep/alice.json": GOOD}, "this adds submissions/deep"),
        ({"submissions/@everyone ::error::<b> `x` | y.json": GOOD}, "is not an entry id"),
        ({PATH: submission(("level_1_problem_19_sample_0", "#"), baseline=True)}, "metadata.baseline is for"),
    ],
)
def test_what_is_more_or_other_than_one_entry_is_refused(project: Project, files: dict, words: str) -> None:
    pull = project.open_pull(files)
    run = project.label(pull)

    assert words in project.comment(pull)
    assert "failure" == run.results["gate"]
    assert project.result("alice-first") is None
    assert not [line for line in run.log.splitlines() if line.strip().startswith("::")]


def test_a_symbolic_link_is_refused(project: Project) -> None:
    pull = project.open_pull({}, **{PATH: "../README.md"})
    run = project.label(pull)

    assert "it is a symbolic link" in project.comment(pull)
    assert "failure" == run.results["gate"]


def test_somebody_elses_entry_is_not_overwritten(project: Project) -> None:
    first = project.open_pull({PATH: GOOD})
    project.merge(first)
    pull = project.open_pull(OVERWRITING, author="bob", number=8)
    checked, _ = project.check(pull)
    run = project.label(pull)

    assert {"validate": "failure"} == checked.results
    assert "those who sent it, or maintainers, may change it" in project.comment(pull)
    assert "failure" == run.results["gate"]


@pytest.mark.parametrize("author", ["alice", "maria"])
def test_those_who_sent_an_entry_and_maintainers_may_change_it(project: Project, author: str) -> None:
    project.merge(project.open_pull({PATH: GOOD}))
    run = project.label(project.open_pull(OVERWRITING, author=author, number=8))

    assert "success" == run.results["publish"]


def test_an_entry_whose_senders_account_is_gone_belongs_to_the_maintainers(project: Project) -> None:
    project.merge(project.open_pull({PATH: GOOD}))
    del project.host.people["alice"]
    others = project.open_pull(OVERWRITING, author="bob", number=8)
    project.check(others)
    run = project.label(project.open_pull(OVERWRITING, author="maria", number=9))

    assert "those who sent it, or maintainers, may change it" in project.comment(others)
    assert "success" == run.results["publish"]


def test_a_pull_request_whose_senders_account_is_gone_is_evaluated_all_the_same(project: Project) -> None:
    pull = project.open_pull({PATH: GOOD})
    del project.host.people["alice"]

    assert "success" == project.label(pull).results["publish"]


@pytest.mark.parametrize("sender", ["mallory", "alice"])
def test_a_strangers_label_does_nothing_and_is_told_so(project: Project, sender: str) -> None:
    pull = project.open_pull({PATH: GOOD})
    project.check(pull)
    run = project.label(pull, sender=sender)

    assert "failure" == run.results["gate"]
    assert "skipped" == run.results["evaluate"]
    comment = project.comment(pull)
    assert f"`{sender}` has the role" in comment
    assert "waiting for a maintainer" in comment
    assert "evaluate" not in pull.labels


def test_a_strangers_dispatch_does_nothing(project: Project) -> None:
    run = project.dispatch(project.open_pull({PATH: GOOD}), sender="mallory")

    assert "failure" == run.results["gate"]
    assert project.result("alice-first") is None


def test_a_push_between_label_and_gate_stops_the_evaluation(project: Project) -> None:
    pull = project.open_pull({PATH: GOOD})
    labelled = project.host.head_of(pull)
    moved = project.push(pull, {PATH: GOOD.replace(b"2.0", b"50.0")})
    run = project.label(pull, head=labelled)

    assert "failure" == run.results["gate"]
    assert f"has moved to `{moved[:12]}`" in project.comment(pull)
    assert [] == project.states(moved)


def test_what_aims_at_another_branch_than_main_is_refused(project: Project) -> None:
    pull = project.open_pull({PATH: GOOD})
    pull.base_ref = "queue"
    run = project.label(pull)

    assert "failure" == run.results["gate"]
    assert "Only pull requests against `main` are evaluated." in project.comment(pull)
    assert project.result("alice-first") is None


def test_a_push_during_the_evaluation_publishes_nothing(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    pull = project.open_pull({PATH: GOOD})
    labelled = project.host.head_of(pull)
    moved = []
    run_job = project.runner._run_job

    def push_before_publishing(run, definition, job, context, head):
        if job.id == "publish":
            moved.append(project.push(pull, {PATH: GOOD.replace(b"2.0", b"50.0")}))
        run_job(run, definition, job, context, head)

    monkeypatch.setattr(project.runner, "_run_job", push_before_publishing)
    project.label(pull)

    assert project.result("alice-first") is None
    assert "changed by a push after the label" in project.comment(pull)
    assert "error" == project.states(labelled)[-1]
    assert [] == project.states(moved[0])


def test_an_evaluation_that_dies_midway_keeps_what_it_judged_and_goes_on_at_the_next_label(
    project: Project,
) -> None:
    pull = project.open_pull({PATH: GOOD})
    project.runner.extra = {"STEADY_DIES_AFTER": "1"}
    died = project.label(pull)

    assert "failure" == died.results["evaluate"]
    assert 1 == len(project.result("alice-first")["rows"])
    assert "3 kernels still to judge by this evaluator, or to judge a second time" in project.comment(pull)
    assert ["state: failed"] == pull.labels

    project.runner.extra = {}
    again = project.label(pull)

    assert "success" == again.results["evaluate"]
    assert 1 == again.jobs["evaluate"].log.count("problem_23") + again.jobs["evaluate"].log.count(
        "1/23 mismatch"
    )
    assert 3 == len(project.result("alice-first")["rows"])
    assert "Evaluated" in project.comment(pull)


@pytest.mark.parametrize(
    ("line", "status"), [("# speedup 2.0", "correct"), ("# speedup 2.0 mismatch", "mismatch")]
)
def test_a_first_evaluation_is_billed_by_the_run_that_made_it(
    project: Project, line: str, status: str
) -> None:
    keys = ("level_1_problem_19_sample_0", "level_2_problem_40_sample_0")
    pull = project.open_pull({PATH: submission(*((key, line) for key in keys))})
    project.runner.extra = {"STEADY_DIES_AFTER": "1"}
    project.label(pull)
    assert "Used 1 GPU-second and 2 CPU-seconds" in project.comment(pull)

    project.runner.extra = {}
    project.label(pull)

    comment = project.comment(pull)
    assert "Used 3 GPU-seconds and 6 CPU-seconds" in comment, "one first evaluation, two second ones"
    assert [status, status] == [row["status"] for row in project.result("alice-first")["rows"]]


@pytest.mark.parametrize(
    ("problem", "state"), [("level_2_problem_40", "failed"), ("level_2_problem_80", "evaluated")]
)
def test_a_verdict_that_the_machinery_owes_is_waited_for_where_it_can_count(
    project: Project, problem: str, state: str
) -> None:
    sent = submission(
        ("level_1_problem_19_sample_0", "# speedup 2.0"), (f"{problem}_sample_0", "# status infra_error")
    )
    pull = project.open_pull({PATH: sent})
    project.label(pull)
    assert [f"state: {state}"] == pull.labels
    assert ("1 kernel still to judge" in project.comment(pull)) == (state == "failed")


def test_an_evaluation_that_dies_before_its_first_verdict_leaves_older_ones_and_bills_nothing(
    project: Project,
) -> None:
    pull = project.open_pull({PATH: GOOD})
    project.label(pull)
    recorded = project.on_main(RECORDED)
    older = re.sub(r'"evaluator_sha256": ?"[0-9a-f]{64}"', f'"evaluator_sha256": "{"a" * 64}"', recorded)
    assert older != recorded
    project.commit_to_main({RECORDED: older.encode()})
    project.runner.extra = {"STEADY_DIES_AFTER": "0"}
    run = project.label(pull)

    assert "failure" == run.results["evaluate"]
    assert older == project.on_main(RECORDED)
    comment = project.comment(pull)
    assert "3 kernels still to judge by this evaluator, or to judge a second time" in comment
    assert "GPU-seconds" not in comment
    assert ["state: failed"] == pull.labels


def refuse_pushes_to_main(project: Project) -> Path:
    """Protect main as a rule of the repository does; gives what to remove to lift that."""
    hook = project.host.git_dir / "hooks/pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(
        "#!/bin/sh\nread old new ref\n[ $ref != refs/heads/main ] && exit 0\n"
        "echo 'GH013: Repository rule violations found' >&2\nexit 1\n"
    )
    hook.chmod(0o755)
    return hook


def test_a_result_that_cannot_be_pushed_is_told(project: Project) -> None:
    pull = project.open_pull({PATH: GOOD})
    refuse_pushes_to_main(project)
    run = project.label(pull)

    assert "failure" == run.results["publish"]
    assert "could not be pushed to `main`" in project.comment(pull)
    assert "GH013: Repository rule violations found" in project.comment(pull)
    assert ["state: failed"] == pull.labels
    assert project.result("alice-first") is None


def test_a_result_that_could_not_be_pushed_is_published_by_that_job_alone(project: Project) -> None:
    pull = project.open_pull({PATH: GOOD})
    hook = refuse_pushes_to_main(project)
    run = project.label(pull)
    hook.unlink()
    assert "failure" == project.label(pull).results["gate"]
    assert "This very commit is being evaluated: nothing more was started." in project.comment(pull)
    project.runner.rerun(run, "publish")

    assert "success" == run.results["publish"]
    assert 3 == len(project.result("alice-first")["rows"])
    assert "Evaluated" in project.comment(pull)
    assert [] == in_queue(project)


def test_a_broken_record_is_told_and_the_result_published_once_it_is_mended(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    pull = project.open_pull({PATH: GOOD})
    project.runner.extra = {"STEADY_IS_PAID": "1"}
    run_job, ledger = project.runner._run_job, "data/spending/2026-10.json"

    def breaking_the_ledger(run, definition, job, context, head):
        if job.id == "publish":
            project.commit_to_main({ledger: b'[{"day": "2026-10-01"}]'})
        run_job(run, definition, job, context, head)

    with monkeypatch.context() as broken:
        broken.setattr(project.runner, "_run_job", breaking_the_ledger)
        run = project.label(pull)

    assert "failure" == run.results["publish"]
    assert f"{ledger}: not a list of what was spent: item 1: missing" in project.comment(pull)
    project.commit_to_main({ledger: None})
    at_work = project.host.git("show", f"queue:{queue.FILE}")
    project.runner.rerun(run, "publish")
    assert "Evaluated" in project.comment(pull)
    assert 3 == len(project.result("alice-first")["rows"])

    spent = spent_on_main(project)
    untold = [{**one, "max_usd": 59.0} for one in json.loads(at_work)]
    project._commit({queue.FILE: json.dumps(untold).encode()}, "queue", "queue", {})
    let_all_be_overdue(project)
    hourly(project)
    assert [] == in_queue(project)
    assert spent == spent_on_main(project), "what was noted for it already is not counted anew"


def test_a_run_that_is_run_again_takes_nobody_elses_place(project: Project) -> None:
    lock(project, 7, times=2)
    project.label(project.open_pull({PATH: GOOD}))
    hook = refuse_pushes_to_main(project)
    run = hourly(project)
    hook.unlink()
    project.set_on_main("at_once = 4", "at_once = 1")
    second = project.open_pull(BOBS, author="bob", number=8)
    project.label(second)
    project.set_on_main("at_once = 1", "at_once = 4")
    assert [("alice-first", run.id), ("bob-second", 0)] == in_queue(project)
    project.runner.rerun(run)

    assert [("alice-first", run.id)] == in_queue(project)
    assert 3 == len(project.result("bob-second")["rows"])
    assert "Evaluated" in project.comment(second)


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (
            {PATH: GOOD.replace(b"level_1_problem_19", b"level_9_problem_19")},
            "submissions/alice-first.json:6:3",
        ),
        ({"data/struck.json": b"[3]"}, "struck.json: not a list of strikes"),
    ],
    ids=["an entry", "strikes"],
)
def test_what_is_broken_on_the_board_keeps_no_result_from_the_record(
    project: Project, broken: dict[str, bytes], said: str
) -> None:
    first = project.open_pull({PATH: GOOD})
    project.label(first)
    project.merge(first)
    project.commit_to_main(broken)
    pull = project.open_pull({"submissions/bob-second.json": GOOD}, author="bob", number=8)
    if PATH not in broken:
        assert "success" == project.check(pull)[0].results["validate"], "no entry is to blame for main"
    run = project.label(pull)

    assert "success" == run.results["publish"]
    assert 3 == len(project.result("bob-second")["rows"])
    comment = project.comment(pull)
    assert "Evaluated" in comment and "| 2/213 |" in comment
    assert "No rank" in comment and "files that cannot be read, so the place is not known" in comment
    assert f"no rank is told: {said}" in re.sub("/.*/", "", run.jobs["publish"].log)


def test_an_entry_may_be_called_job(project: Project) -> None:
    pull = project.open_pull({"submissions/job.json": GOOD})
    run = project.label(pull)

    assert {"success"} == set(run.results.values())
    assert 3 == len(project.result("job")["rows"])


def test_an_evaluation_without_any_result_is_told_and_publishes_nothing(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    pull = project.open_pull({PATH: GOOD})
    run_job = project.runner._run_job

    def without_its_job(run, definition, job, context, head):
        if job.id == "evaluate":
            for folder in run.artifacts.values():
                (folder / "job.json").write_text("{")
        run_job(run, definition, job, context, head)

    monkeypatch.setattr(project.runner, "_run_job", without_its_job)
    run = project.label(pull)

    assert "failure" == run.results["evaluate"]
    assert "success" == run.results["publish"]
    assert "handed no result on" in project.comment(pull)
    assert project.result("alice-first") is None


def test_two_pull_requests_at_once_both_land(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    from threading import Barrier, Thread

    first = project.open_pull({PATH: GOOD})
    second = project.open_pull({"submissions/bobs.json": GOOD}, author="bob", number=8)
    together = Barrier(2)
    run_job = project.runner._run_job

    def publish_together(run, definition, job, context, head):
        if job.id == "publish":
            together.wait(120)
        run_job(run, definition, job, context, head)

    monkeypatch.setattr(project.runner, "_run_job", publish_together)
    threads = [Thread(target=project.label, args=(pull,)) for pull in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(240)

    assert project.result("alice-first")
    assert project.result("bobs")
    assert "Evaluated" in project.comment(first)
    assert "Evaluated" in project.comment(second)


def test_passing_errors_and_rate_limits_are_waited_out(project: Project) -> None:
    pull = project.open_pull({PATH: GOOD})
    limit = {"message": "API rate limit exceeded for installation"}
    project.host.faults = [
        Fault("GET", "/pulls/7", 1, 502),
        Fault("GET", "/compare/", 1, 403, limit, {"Retry-After": "1"}),
        Fault("POST", "/comments", 1, 500),
        Fault("PATCH", "/comments/", 2, 502),
        Fault("POST", "/statuses", 1, 429, limit, {"Retry-After": "1"}),
    ]
    run = project.label(pull)

    assert "success" == run.results["publish"]
    assert "Evaluated" in project.comment(pull)


def test_a_host_that_stays_broken_ends_the_gate_with_one_line(project: Project) -> None:
    pull = project.open_pull({PATH: GOOD})
    project.host.faults = [Fault("GET", "/compare/", 99, 500)]
    run = project.label(pull)

    assert "failure" == run.results["gate"]
    assert "Traceback" not in run.log
    assert "::error ::" in run.jobs["gate"].log
    assert "evaluate" not in pull.labels


def lock(project: Project, pull: int, times: int = 1000) -> Fault:
    """Lock the thread of a pull request: nobody but those with write access may comment."""
    words = {"message": "Unable to create comment because issue is locked."}
    fault = Fault("POST", f"/issues/{pull}/comments", times, 403, words)
    project.host.faults.append(fault)
    return fault


def hourly(project: Project) -> Run:
    """Let the schedule of evaluate.yml start."""
    return project.runner.run("evaluate.yml", "schedule", {})


def in_queue(project: Project) -> list[tuple[str, int]]:
    """The entries of the queue, and the runs that have them."""
    found = json.loads(project.host.git("show", f"queue:{queue.FILE}"))
    return [(one["entry"], one["run"]) for one in found]


def let_all_be_overdue(project: Project) -> None:
    """Let the time be over in which those that run should have ended."""
    found = json.loads(project.host.git("show", f"queue:{queue.FILE}"))
    late = [{**one, "due": "2026-01-01T00:00:00+00:00"} for one in found]
    project._commit({queue.FILE: json.dumps(late).encode()}, "queue", "queue", {})


def test_a_locked_pull_request_holds_up_nobody_and_has_its_turn_once_it_is_unlocked(project: Project) -> None:
    locked = lock(project, 7)
    first = project.open_pull({PATH: GOOD})
    run = project.label(first)
    second = project.open_pull(BOBS, author="bob", number=8)
    project.set_on_main("at_once = 4", "at_once = 1")
    project.label(second)

    assert {"success", "skipped"} == set(run.results.values())
    assert "alice-first is queued, and its pull request could not be told" in run.jobs["gate"].log
    assert "::warning ::alice-first for CPU-reduced, pull request 7" in run.jobs["take"].log
    assert "Evaluated" in project.comment(second)
    assert [("alice-first", 0)] == in_queue(project)
    assert "success" == hourly(project).results["take"]

    locked.times = 0
    hourly(project)
    assert "Evaluated" in project.comment(first)
    assert [] == in_queue(project)


@pytest.mark.parametrize("locked", [False, True])
def test_an_overdue_run_that_was_deleted_holds_up_nobody(project: Project, locked: bool) -> None:
    first = project.open_pull({PATH: GOOD})
    hook = refuse_pushes_to_main(project)
    run = project.label(first)
    hook.unlink()
    del project.host.runs[run.id]
    let_all_be_overdue(project)
    project.set_on_main("at_once = 4", "at_once = 1")
    if locked:
        project.host.faults.append(Fault("PATCH", "/issues/comments/", 2, 403, {"message": "locked"}))
    second = project.open_pull(BOBS, author="bob", number=8)
    project.label(second)

    assert "Evaluated" in project.comment(second)
    assert ([("alice-first", 0)] if locked else []) == in_queue(project)
    assert "" == project.host.git("ls-tree", "main", "data/spending/"), "nobody sends a bill"
    assert locked or "Its run ended without a word" in project.comment(first)


def spent_on_main(project: Project) -> list[tuple[int, int, str, float, bool]]:
    """What the ledger on main has: run, attempt, entry, dollars, and whether a meter counted them."""
    (path,) = project.host.git("ls-tree", "--name-only", "main", "data/spending/").split()
    lines = json.loads(project.on_main(path))
    return [(one["run"], one["attempt"], one["entry"], one["usd"], one["metered"]) for one in lines]


def test_what_a_run_could_spend_counts_where_it_ended_without_a_word(project: Project) -> None:
    project.runner.extra = {"STEADY_IS_PAID": "1"}
    pull = project.open_pull({PATH: GOOD})
    hook = refuse_pushes_to_main(project)
    run = project.label(pull)
    let_all_be_overdue(project)
    hourly(project)
    assert [("alice-first", run.id)] == in_queue(project), "what it may have spent still counts"
    assert "could not be pushed to `main`" in project.comment(pull)

    hook.unlink()
    text = project.host.git("show", f"queue:{queue.FILE}").replace("CPU-reduced", "CPU-gone")
    project._commit({queue.FILE: text.encode()}, "queue", "queue", {})
    project.host.runs[run.id] = "in_progress"
    hourly(project)
    assert [("alice-first", run.id)] == in_queue(project), "late as it is, it has not ended"

    project.host.runs[run.id] = "completed"
    hourly(project)
    assert [] == in_queue(project)
    assert [(run.id, 1, "alice-first", 60.0, False)] == spent_on_main(project)

    project.runner.rerun(run, "publish")
    assert 1 == len(spent_on_main(project)), "no money counts twice"
    assert "Evaluated" in project.comment(pull)


def test_judging_again_within_a_run_asks_no_cap_so_it_is_refused_and_costs_nothing(
    project: Project,
) -> None:
    pull = project.open_pull({PATH: GOOD})
    project.runner.extra = {"STEADY_DIES_AFTER": "1", "STEADY_IS_PAID": "1"}
    run = project.label(pull)
    project.runner.extra = {"STEADY_IS_PAID": "1"}
    project.runner.rerun(run, "evaluate")

    assert "failure" == run.results["evaluate"]
    assert "taken by attempt 1 of this run, and this is attempt 2" in run.jobs["evaluate"].log
    assert 1 == len(project.result("alice-first")["rows"])
    (first, second) = spent_on_main(project)
    assert (run.id, 1, "alice-first") == first[:3] and not first[4]
    assert (run.id, 2, "alice-first", 0.0, True) == second


def test_a_cap_below_what_starts_an_evaluation_is_named(project: Project) -> None:
    project.set_on_main("usd_per_evaluation = 60.0", "usd_per_evaluation = 0.5")
    project.runner.extra = {"STEADY_IS_PAID": "1"}
    pull = project.open_pull({PATH: GOOD})
    run = project.label(pull)

    assert "skipped" == run.results["evaluate"]
    assert "$0.50 for an evaluation" in project.comment(pull)
    assert "None starts with less than $1.00" in project.comment(pull)


def test_a_host_that_is_down_fails_the_run_and_keeps_the_place_but_cuts_off_nobody_who_began(
    project: Project,
) -> None:
    lock(project, 7, times=2)
    pull = project.open_pull({PATH: GOOD})
    project.label(pull)
    project.host.faults = [Fault("GET", "/pulls/7", 99, 500)]
    run = hourly(project)

    assert "failure" == run.results["take"]
    assert [("alice-first", 0)] == in_queue(project)

    (alice,) = json.loads(project.host.git("show", f"queue:{queue.FILE}"))
    both = [alice, {**alice, "pull": 8, "entry": "bob-second", "asked_at": "2099-01-01T00:00:00+00:00"}]
    project._commit({queue.FILE: json.dumps(both).encode()}, "queue", "queue", {})
    project.host.faults = [Fault("POST", "/dispatches", 99, 500)]
    run = hourly(project)

    assert {"success", "skipped"} == set(run.results.values())
    assert "::warning ::no other run was started" in run.jobs["take"].log
    assert "Evaluated" in project.comment(pull)
    assert [("bob-second", 0)] == in_queue(project)


def button(project: Project, verb: str, sender: str = "maria", checkout: str = "main", **inputs: str) -> Run:
    """Press a button of board.yml, and let the runs that it starts happen."""
    given = {"inputs": {"verb": verb, **inputs}, "sender": {"login": sender}}
    run = project.runner.run("board.yml", "workflow_dispatch", given, head=checkout)
    work_off(project)
    return run


def work_off(project: Project) -> list[Run]:
    """Let the runs happen that were started, and give them."""
    told, runs = {"sender": {"login": "github-actions[bot]"}}, []
    while project.host.dispatched:
        project.host.dispatched.pop()
        runs.append(project.runner.run("evaluate.yml", "repository_dispatch", told))
    return runs


def look_on_monday(project: Project) -> list[Run]:
    """Let the schedule of board.yml start, and give the runs that it starts."""
    project.runner.run("board.yml", "schedule", {})
    return work_off(project)


def test_a_banned_authors_label_is_refused_kindly_until_the_ban_is_lifted(project: Project) -> None:
    pull = project.open_pull({PATH: GOOD})
    button(project, "ban", account="1001", login="alice", reason="copied kernels")
    run = project.label(pull)

    assert "failure" == run.results["gate"]
    assert "`copied kernels`" in project.comment(pull)
    assert project.result("alice-first") is None

    button(project, "unban", account="1001")
    assert "success" == project.label(pull).results["publish"]


def test_who_is_banned_while_an_entry_waits_is_told_and_nothing_is_judged(project: Project) -> None:
    lock(project, 7, times=2)
    pull = project.open_pull({PATH: GOOD})
    project.label(pull)
    assert [("alice-first", 0)] == in_queue(project)
    button(project, "ban", account="1001", login="alice", reason="copied kernels")
    hourly(project)

    assert "`copied kernels`" in project.comment(pull)
    assert project.result("alice-first") is None
    assert [] == in_queue(project)


def test_a_label_of_a_board_for_another_precision_is_refused_with_the_one_that_fits(project: Project) -> None:
    half = submission(("level_1_problem_19_sample_0", "# steady"), name="Alice's half", precision="bf16")
    pull = project.open_pull({PATH: half})
    run = project.label(pull)

    assert "failure" == run.results["gate"]
    assert "`evaluate: CPU-bf16-reduced`" in project.comment(pull)
    assert project.result("alice-first") is None


def test_a_board_without_a_price_is_refused_by_name_before_anything_is_spent(project: Project) -> None:
    b200 = """
[boards.B200]
label = "evaluate: B200"
engine = "modal"
gpu = "B200"
device = "cuda"
sizes = "full"
census = false
at_once = 1
"""
    project.set_on_main("[boards.CPU-bf16-reduced]", f"{b200}\n[boards.CPU-bf16-reduced]")
    pull = project.open_pull({PATH: GOOD})
    run = project.label(pull, name="evaluate: B200")

    assert "failure" == run.results["gate"]
    assert "skipped" == run.results["evaluate"]
    assert "`B200`" in project.comment(pull) and "no price of B200 is known" in project.comment(pull)
    assert "evaluate: B200" not in pull.labels
    assert "no price of B200" in button(project, "due", board="B200").jobs["board"].log
    assert "success" == project.label(pull).results["publish"], "other boards go on"

    project.label(pull, name="evaluate: B300")
    assert "There is no such board" in project.comment(pull)
    assert "evaluate: B300" not in pull.labels


def test_who_waits_for_a_board_that_is_gone_from_the_settings_is_told(project: Project) -> None:
    lock(project, 7, times=2)
    pull = project.open_pull({PATH: GOOD})
    project.label(pull)
    text = project.host.git("show", f"queue:{queue.FILE}").replace("CPU-reduced", "CPU-gone")
    project._commit({queue.FILE: text.encode()}, "queue", "queue", {})
    hourly(project)

    assert "There is no board `CPU-gone` any more." in project.comment(pull)
    assert [] == in_queue(project)


def test_an_appeal_judges_a_merged_entry_again_without_a_pull_request(project: Project) -> None:
    pull = project.open_pull({PATH: GOOD})
    evaluated = project.label(pull)
    project.merge(pull)
    before = project.comment(pull)
    project.runner.extra = {"STEADY_CPU_SECONDS": "9", "STEADY_FINISHED_AT": "2026-01-02T00:00:00Z"}
    button(project, "again", entry="alice-first")

    result = project.result("alice-first")
    assert 2 == result["revision"]
    assert {9.0} == {row["cpu_seconds"] for row in result["rows"]}
    assert before == project.comment(pull)
    project.runner.rerun(evaluated, "publish")
    assert result == project.result("alice-first"), "what is published again brings no older verdict back"


def test_the_weekly_second_look_at_every_board_says_in_public_what_it_changed(
    project: Project, tmp_path: Path
) -> None:
    pull = project.open_pull({PATH: GOOD})
    project.label(pull)
    project.merge(pull)
    project.runner.extra = {"STEADY_VERDICT": "mismatch", "STEADY_CPU_SECONDS": "8"}
    looked, *_ = look_on_monday(project)
    project.runner.rerun(looked, "publish")
    project.runner.extra = {"STEADY_VERDICT": "mismatch", "STEADY_CPU_SECONDS": "9"}
    button(project, "again", entry="alice-first")

    (path,) = project.host.git("ls-tree", "--name-only", "main", "data/reviews/").split()
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_text(project.on_main(path))
    first, second = read_reviews(tmp_path / "data")
    assert ("second-look", "CPU-reduced", "alice-first") == (first.verb, first.board, first.entry)
    assert (2, 3) == (first.revision, first.kernels)
    assert {"was correct, is mismatch"} == set(first.differs.values())
    assert ("again", 3, {}) == (second.verb, second.revision, second.differs)


def test_what_is_due_is_judged_and_nothing_else(project: Project) -> None:
    pull = project.open_pull({PATH: GOOD})
    project.label(pull)
    project.merge(pull)
    button(project, "due")
    assert 1 == project.result("alice-first")["revision"]

    older = re.sub(
        r'"evaluator_sha256": ?"[0-9a-f]{64}"',
        f'"evaluator_sha256": "{"a" * 64}"',
        project.on_main(RECORDED),
    )
    project.commit_to_main({RECORDED: older.encode()})
    button(project, "due")
    assert 2 == project.result("alice-first")["revision"]


def test_a_struck_kernel_counts_as_missing_and_its_row_stays(project: Project) -> None:
    pull = project.open_pull({PATH: GOOD})
    project.label(pull)
    project.merge(pull)
    project.runner.with_site = True
    run = button(
        project,
        "strike",
        entry="alice-first",
        kernel="level_1_problem_19_sample_0",
        reason="reads the answer",
    )

    assert 3 == len(project.result("alice-first")["rows"])
    assert "reads the answer" in project.on_main("data/notices.json")
    assert "level_1_problem_19_sample_0" in project.on_main("data/struck.json")
    assert "reads the answer" in (run.site / "trust.html").read_text(), "no push of ours starts pages.yml"


@pytest.mark.parametrize("since", [None, GOOD.replace(b"2.0", b"2.5")])
def test_what_was_changed_or_withdrawn_while_a_button_waited_is_left_out(
    project: Project, since: bytes | None
) -> None:
    project.merge(project.open_pull({PATH: GOOD}))
    when_pressed = project.main
    project.commit_to_main({PATH: since})
    run = button(project, "again", entry="alice-first", checkout=when_pressed)

    assert "success" == run.results["board"]
    assert "alice-first was changed or withdrawn since this run was asked for" in run.log
    assert project.result("alice-first") is None


def test_a_merged_entry_that_is_changed_while_it_waits_is_not_judged(project: Project) -> None:
    project.merge(project.open_pull({PATH: GOOD}))
    given = {"inputs": {"verb": "again", "entry": "alice-first"}, "sender": {"login": "maria"}}
    project.runner.run("board.yml", "workflow_dispatch", given)
    assert [("alice-first", 0)] == in_queue(project)
    project.commit_to_main({PATH: GOOD.replace(b"2.0", b"2.5")})
    (run,) = work_off(project)

    assert "skipped" == run.results["evaluate"]
    assert [] == in_queue(project)
    assert project.result("alice-first") is None


@pytest.mark.parametrize("verb", ["ban", "strike", "again"])
def test_buttons_are_for_people_with_write_access(project: Project, verb: str) -> None:
    before = project.main
    run = button(project, verb, sender="mallory", account="1001", entry="alice-first", reason="x")

    assert "failure" == run.results["board"]
    assert before == project.main


def test_a_list_that_could_not_be_read_is_named_before_it_is_merged(project: Project) -> None:
    files = {"data/struck.json": b"[3]", ".github/banned.toml": b"[[banned]]\nid = 1\n"}
    checked, _ = project.check(project.open_pull(files, author="maria"))

    assert {"validate": "failure"} == checked.results
    assert "::error ::data/struck.json: not a list of strikes: item 1: must be a table" in checked.log
    assert "::error ::.github/banned.toml: not a list of bans: ban 1: missing" in checked.log


def test_other_work_gets_no_comment(project: Project) -> None:
    pull = project.open_pull({"leaderboard/stages/record.py": b"# better\n"}, author="bob")
    checked, _ = project.check(pull)

    assert {"validate": "success"} == checked.results
    assert [] == pull.comments
    assert ["success"] == project.states(project.host.head_of(pull))


@pytest.mark.parametrize("gone", ["head_branch", "head_repository", "owner"])
def test_a_check_of_a_fork_that_is_gone_is_told_all_the_same(project: Project, gone: str) -> None:
    pull = project.open_pull({PATH: GOOD})
    told = payload("workflow_run.completed", pull, project.host.head_of(pull))
    run = told["workflow_run"]
    (run["head_repository"] if gone == "owner" else run)[gone] = None
    project.runner.run("comment.yml", "workflow_run", told)

    assert "waiting for a maintainer" in project.comment(pull)


def test_a_pull_request_against_another_branch_gets_no_comment(project: Project) -> None:
    pull = project.open_pull({PATH: GOOD})
    project.host.git("branch", "stable", "main")
    pull.base_ref = "stable"
    project.comment_on(pull, project.host.head_of(pull))

    assert [] == pull.comments


def test_of_two_pull_requests_of_a_branch_the_one_against_main_is_told(project: Project) -> None:
    pull = project.open_pull({PATH: GOOD})
    head = project.host.head_of(pull)
    project.host.git("branch", "stable", "main")
    project.host.git("update-ref", "refs/pull/8/head", head)
    other = replace(pull, number=8, base_ref="stable", comments=[])
    project.host.pulls = {8: other, 7: pull}
    project.comment_on(pull, head)

    assert "waiting for a maintainer" in project.comment(pull)
    assert [] == other.comments


def test_a_withdrawal_is_for_those_who_sent_the_entry(project: Project) -> None:
    project.merge(project.open_pull({PATH: GOOD}))
    own = project.open_pull({PATH: None}, number=8)
    others = project.open_pull({PATH: None}, author="bob", number=9)
    project.check(own)
    project.check(others)

    assert "withdraws entries; a maintainer decides" in project.comment(own)
    assert "those who sent it, or maintainers, may change it" in project.comment(others)


def test_the_comment_says_what_changed_since_the_last_run(project: Project) -> None:
    pull = project.open_pull({PATH: GOOD})
    project.label(pull)
    project.push(pull, {PATH: GOOD.replace(b"status mismatch", b"speedup 3.0").replace(b"1.5", b"1.7")})
    project.label(pull)

    comment = project.comment(pull)
    assert "`1/23`: mismatch → correct" in comment
    assert "`2/40`: 1.500× → 1.700×" in comment
    assert "Used 4 GPU-seconds" in comment, "two are judged twice; the third was judged and billed before"
    assert 2 == project.result("alice-first")["revision"]


def test_a_check_after_an_evaluation_leaves_its_scores_alone(project: Project) -> None:
    pull = project.open_pull({PATH: GOOD})
    project.label(pull)
    project.check(pull)

    assert "rank 1 of 1" in project.comment(pull)


def test_the_comment_says_validating_while_the_check_runs(project: Project) -> None:
    pull = project.open_pull({PATH: GOOD})
    project.comment_on(pull, project.host.head_of(pull), action="requested")

    assert "Validating" in project.comment(pull)


def test_the_settings_can_ask_for_a_census(project: Project) -> None:
    project.set_on_main("census = false", "census = true")
    project.label(project.open_pull({PATH: GOOD}))

    assert all(row["labels"] == ["custom"] for row in project.result("alice-first")["rows"])


def test_results_can_go_to_a_branch_of_their_own(project: Project) -> None:
    project.set_on_main('results_ref = "main"', 'results_ref = "results"')
    project.label(project.open_pull({PATH: GOOD}))
    built = project.runner.run("pages.yml", "push", {"sender": {"login": "maria"}})

    assert project.result("alice-first") is None
    assert project.host.git("show", f"results:{RECORDED}")
    assert "results of results: data/results/CPU-reduced" in built.jobs["build"].log


def test_what_lies_on_a_branch_of_results_is_not_judged_again(project: Project) -> None:
    project.set_on_main('results_ref = "main"', 'results_ref = "results"')
    pull = project.open_pull({PATH: GOOD})
    project.label(pull)
    project.push(pull, {PATH: GOOD.replace(b"1.5", b"1.7")})
    again = project.label(pull)

    assert "1 judged now, 2 still good" in again.jobs["evaluate"].log
    assert "`2/40`: 1.500× → 1.700×" in project.comment(pull)


@pytest.mark.parametrize("ref", ["main", "results"])
def test_what_was_struck_counts_in_no_rank_that_is_promised(project: Project, ref: str) -> None:
    project.set_on_main('results_ref = "main"', f'results_ref = "{ref}"')
    keys = ("level_1_problem_19_sample_0", "level_2_problem_40_sample_0")
    pull = project.open_pull({PATH: submission(*((key, "# speedup 9.0") for key in keys))})
    project.label(pull)
    project.merge(pull)
    for key in keys:
        button(project, "strike", entry="alice-first", kernel=key, reason="a hole")
    second = {"submissions/bob-second.json": submission(*((key, "# speedup 1.5") for key in keys))}
    pull = project.open_pull(second, author="bob", number=8)
    project.label(pull)

    assert "rank 1 of 1" in project.comment(pull)


def test_an_appeal_for_a_board_of_another_precision_is_refused_before_it_costs(project: Project) -> None:
    pull = project.open_pull({PATH: GOOD})
    project.label(pull)
    project.merge(pull)
    run = button(project, "again", entry="alice-first", board="CPU-bf16-reduced")

    assert "failure" == run.results["board"]
    assert "alice-first is for boards of fp32" in run.log
    assert "again needs an entry, got none" in button(project, "again").log
    assert [] == in_queue(project)


def test_a_branch_of_results_hides_nothing_newer_on_main(project: Project) -> None:
    project.set_on_main('results_ref = "main"', 'results_ref = "results"')
    project.runner.with_site = True
    pull = project.open_pull({PATH: GOOD})
    project.label(pull)
    project.merge(pull)
    notice = {"date": "2026-11-22", "entry": "bob-second", "what": "Withdrawn", "why": "Its author asked."}
    project.commit_to_main({"data/notices.json": json.dumps([notice]).encode()})
    built = project.runner.run("pages.yml", "push", {"sender": {"login": "maria"}})

    assert "Alice&#39;s first" in (built.site / "index.html").read_text()
    assert "Its author asked." in (built.site / "trust.html").read_text()


def test_a_new_push_after_an_evaluation_says_that_it_does_not_count(project: Project) -> None:
    pull = project.open_pull({PATH: GOOD})
    evaluated = project.host.head_of(pull)
    project.label(pull)
    project.push(pull, {PATH: GOOD.replace(b"2.0", b"2.5")})
    project.check(pull)

    assert f"The evaluation of `{evaluated[:12]}` does not count" in project.comment(pull)


def test_a_copied_marker_of_a_stranger_is_left_alone(project: Project) -> None:
    pull = project.open_pull({PATH: GOOD})
    fake = "<!-- kernelbench-leaderboard: sticky comment -->\n### rank 1 of 1"
    pull.comments.append({"id": 1, "body": fake, "user": {"login": "alice", "id": 1001}})
    project.check(pull)

    assert fake == pull.comments[0]["body"]
    assert "waiting for a maintainer" in project.comment(pull)
