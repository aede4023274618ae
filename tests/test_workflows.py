"""The policy of the workflows, asserted on the parsed YAML: power, secrets, pins, limits, and nothing clever in a shell."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from fakes.expressions import evaluate, truthy

from leaderboard.github.settings import read_settings

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".github/workflows"
NAMES = sorted(path.name for path in FOLDER.glob("*.yml"))
BASE = read_settings(ROOT / ".github/evaluation.toml").base_ref
WORKFLOWS = {name: yaml.load((FOLDER / name).read_text("utf-8"), yaml.BaseLoader) for name in NAMES}
JOBS = [(name, job_id) for name in NAMES for job_id in WORKFLOWS[name]["jobs"]]
STEPS = [
    (name, job_id, i)
    for name, job_id in JOBS
    for i in range(len(WORKFLOWS[name]["jobs"][job_id].get("steps", [])))
]

RIGHTS = {
    ("board.yml", "board"): {"contents": "write"},
    ("board.yml", "site"): {"contents": "read", "pages": "write", "id-token": "write"},
    ("ci.yml", "check"): {"contents": "read"},
    ("ci.yml", "test"): {"contents": "read"},
    ("ci.yml", "gvisor"): {"contents": "read"},
    ("comment.yml", "comment"): {"contents": "read", "pull-requests": "write", "statuses": "write"},
    ("evaluate.yml", "gate"): {"contents": "write", "pull-requests": "write", "statuses": "write"},
    ("evaluate.yml", "take"): {
        "actions": "read",
        "contents": "write",
        "pull-requests": "write",
        "statuses": "write",
    },
    ("evaluate.yml", "evaluate"): {"contents": "read"},
    ("evaluate.yml", "publish"): {"contents": "write", "pull-requests": "write", "statuses": "write"},
    ("evaluate.yml", "site"): {"contents": "read", "pages": "write", "id-token": "write"},
    ("pages.yml", "build"): {"contents": "read"},
    ("pages.yml", "deploy"): {"pages": "write", "id-token": "write"},
    ("release.yml", "export"): {"contents": "read"},
    ("release.yml", "publish"): {"contents": "write"},
    ("validate.yml", "validate"): {"contents": "read", "pull-requests": "read"},
}
EVENTS = {
    "board.yml": {"workflow_dispatch", "schedule"},
    "ci.yml": {"pull_request", "push"},
    "comment.yml": {"workflow_run"},
    "evaluate.yml": {"pull_request_target", "workflow_dispatch", "repository_dispatch", "schedule"},
    "pages.yml": {"push", "workflow_dispatch", "workflow_call"},
    "release.yml": {"workflow_dispatch", "schedule"},
    "validate.yml": {"pull_request", "merge_group"},
}
LINE = re.compile(
    r"(\.venv/bin/kbl (ci|validate|site|export) [^;&|`\n]+|scripts/install\.sh (site|export|github|modal)|scripts/(fonts|release)\.sh|make (check|test|gvisor))"
)


def job(name: str, job_id: str) -> dict:
    return WORKFLOWS[name]["jobs"][job_id]


def step(name: str, job_id: str, index: int) -> dict:
    return job(name, job_id)["steps"][index]


def everything(value: object) -> str:
    return json.dumps(value)


def test_the_workflows_are_the_ones_that_this_policy_knows() -> None:
    assert set(EVENTS) == set(NAMES)
    assert set(RIGHTS) == set(JOBS)


@pytest.mark.parametrize("name", NAMES)
def test_a_workflow_starts_by_its_events_alone(name: str) -> None:
    assert EVENTS[name] == set(WORKFLOWS[name]["on"])


@pytest.mark.parametrize("name", NAMES)
def test_a_workflow_names_the_branch_of_the_settings(name: str) -> None:
    events = [event for event in WORKFLOWS[name]["on"].values() if isinstance(event, dict)]

    assert [] == [event for event in events if event.get("branches", [BASE]) != [BASE]]


def test_the_privileged_event_is_for_labels_alone() -> None:
    assert {"types": ["labeled"]} == WORKFLOWS["evaluate.yml"]["on"]["pull_request_target"]
    assert "github.event.label.name == 'evaluate'" in job("evaluate.yml", "gate")["if"]


@pytest.mark.parametrize(
    ("event", "label", "starts"),
    [
        ("pull_request_target", "evaluate", True),
        ("pull_request_target", "evaluate: B200", True),
        ("pull_request_target", "evaluated", False),
        ("repository_dispatch", None, False),
        ("schedule", None, False),
        ("pull_request_target", None, False),
        ("workflow_dispatch", None, True),
    ],
)
def test_the_gate_opens_for_its_label_or_by_hand(event: str, label: str | None, starts: bool) -> None:
    given = {"event_name": event, "event": {"label": {"name": label}}}
    assert starts is truthy(evaluate(job("evaluate.yml", "gate")["if"], {"github": given}))


@pytest.mark.parametrize(
    ("event", "gate", "takes"),
    [
        ("pull_request_target", "success", True),
        ("pull_request_target", "failure", False),
        ("pull_request_target", "skipped", False),
        ("workflow_dispatch", "success", True),
        ("repository_dispatch", "skipped", True),
        ("schedule", "skipped", True),
    ],
)
def test_the_queue_is_worked_off_after_a_label_and_when_a_run_asks_for_it(
    event: str, gate: str, takes: bool
) -> None:
    context = {
        "github": {"event_name": event},
        "needs": {"gate": {"result": gate}},
        "functions": {"always": True},
    }
    assert takes is truthy(evaluate(job("evaluate.yml", "take")["if"], context))


@pytest.mark.parametrize(
    ("take", "pull", "publishes"), [("success", "7", True), ("success", "", False), ("failure", "", False)]
)
def test_publishing_follows_what_was_taken_however_the_evaluation_ended(
    take: str, pull: str, publishes: bool
) -> None:
    needs = {"take": {"result": take, "outputs": {"pull": pull}}, "evaluate": {"result": "failure"}}
    context = {"needs": needs, "functions": {"always": True, "cancelled": False}}
    assert publishes is truthy(evaluate(job("evaluate.yml", "publish")["if"], context))
    assert publishes is truthy(evaluate(job("evaluate.yml", "evaluate")["if"], context))
    context["functions"]["cancelled"] = True
    assert not truthy(evaluate(job("evaluate.yml", "evaluate")["if"], context)), (
        "who cancels it spends nothing"
    )


@pytest.mark.parametrize("published", ["success", "failure", "skipped"])
def test_the_site_is_built_anew_where_something_was_published(published: str) -> None:
    context = {"needs": {"publish": {"result": published}}, "functions": {"always": True}}
    built = truthy(evaluate(job("evaluate.yml", "site")["if"], context))

    assert built is (published == "success")


@pytest.mark.parametrize(
    ("event", "speaks"), [("pull_request", True), ("merge_group", False), ("push", False)]
)
def test_the_comment_is_about_pull_requests_alone(event: str, speaks: bool) -> None:
    given = {"event": {"workflow_run": {"event": event}}}
    assert speaks is truthy(evaluate(job("comment.yml", "comment")["if"], {"github": given}))


def test_a_check_follows_every_push_and_a_base_that_becomes_main_and_the_comment_follows_the_check() -> None:
    checked, told = WORKFLOWS["validate.yml"], WORKFLOWS["comment.yml"]["on"]["workflow_run"]

    assert {"opened", "synchronize", "reopened", "edited"} == set(checked["on"]["pull_request"]["types"])
    assert {"workflows": [checked["name"]], "types": ["requested", "completed"]} == told


@pytest.mark.parametrize(
    ("name", "job_id", "of_step", "event"),
    [
        ("evaluate.yml", "gate", "Take the label off", "pull_request_target"),
        ("evaluate.yml", "evaluate", "Hand the result on", "schedule"),
        ("evaluate.yml", "publish", "Start the next", "schedule"),
        ("validate.yml", "validate", "Check what is changed, and by whom", "pull_request"),
    ],
)
def test_a_failure_before_it_keeps_no_one_from_what_they_wait_for(
    name: str, job_id: str, of_step: str, event: str
) -> None:
    (found,) = [found for found in job(name, job_id)["steps"] if found.get("name") == of_step]
    given = {"github": {"event_name": event}, "functions": {"always": True, "cancelled": False}}
    assert re.search(r"(always|!cancelled)\(\)", found["if"]), "without either it waits for success"
    assert truthy(evaluate(found["if"], given))


def test_a_newer_run_cuts_off_the_checks_of_an_older_push_alone() -> None:
    cut = {name: WORKFLOWS[name].get("concurrency", {}).get("cancel-in-progress", "false") for name in NAMES}
    of_pulls = cut.pop("ci.yml")

    assert {"validate.yml"} == {name for name, is_cut in cut.items() if is_cut != "false"}
    for event, is_cut in (("pull_request", True), ("push", False)):
        assert is_cut is truthy(evaluate(of_pulls, {"github": {"event_name": event}}))


@pytest.mark.parametrize("name", ["pages.yml", "release.yml"])
def test_what_is_published_is_read_from_main_as_it_is_by_then(name: str) -> None:
    steps = [found for one in WORKFLOWS[name]["jobs"].values() for found in one["steps"]]
    refs = [found["with"].get("ref") for found in steps if "checkout@" in found.get("uses", "")]

    assert {BASE} == set(refs)
    (first, second) = WORKFLOWS[name]["jobs"]
    assert first == job(name, second)["needs"]


def test_what_waits_for_a_reviewer_of_the_environment_is_kept_as_long_as_that_may_take() -> None:
    steps = [found for one in ("take", "evaluate") for found in job("evaluate.yml", one)["steps"]]
    kept = [found["with"]["retention-days"] for found in steps if "upload-artifact@" in found.get("uses", "")]

    assert ["30", "30"] == kept


@pytest.mark.parametrize("job_id", ["check", "test", "gvisor"])
def test_a_job_of_the_projects_own_checks_runs_what_it_is_named_for(job_id: str) -> None:
    assert f"make {job_id}" == job("ci.yml", job_id)["steps"][-1]["run"]


def test_the_tests_run_on_the_oldest_python_that_an_install_takes() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["requires-python"] == f">={job('ci.yml', 'test')['strategy']['matrix']['python'][0]}"


@pytest.mark.parametrize("name", NAMES)
def test_a_workflow_grants_nothing_by_itself(name: str) -> None:
    assert {} == WORKFLOWS[name]["permissions"]


@pytest.mark.parametrize(("name", "job_id"), JOBS)
def test_a_job_has_exactly_the_rights_it_needs(name: str, job_id: str) -> None:
    assert RIGHTS[name, job_id] == job(name, job_id)["permissions"]


@pytest.mark.parametrize(("name", "job_id"), JOBS)
def test_a_job_has_a_limit_and_a_hosted_runner(name: str, job_id: str) -> None:
    if "uses" not in job(name, job_id):
        assert 1 <= int(job(name, job_id)["timeout-minutes"]) <= 350
        assert "ubuntu-24.04" == job(name, job_id)["runs-on"]


@pytest.mark.parametrize(("name", "job_id", "index"), STEPS)
def test_an_action_is_pinned_by_its_commit_and_names_its_version(name: str, job_id: str, index: int) -> None:
    uses = step(name, job_id, index).get("uses")
    if uses:
        assert re.fullmatch(r"(actions)/[a-z-]+@[0-9a-f]{40}", uses)
        assert re.search(re.escape(uses) + r" # v\d+\.\d+\.\d+\n", (FOLDER / name).read_text("utf-8"))


@pytest.mark.parametrize(("name", "job_id", "index"), STEPS)
def test_a_step_runs_one_plain_line_without_any_text_of_the_event(name: str, job_id: str, index: int) -> None:
    command = step(name, job_id, index).get("run")
    if command:
        assert LINE.fullmatch(command)
        assert "${{" not in command


@pytest.mark.parametrize(("name", "job_id", "index"), STEPS)
def test_a_step_is_given_no_text_that_a_stranger_writes(name: str, job_id: str, index: int) -> None:
    given = everything(step(name, job_id, index).get("env", {})) + everything(
        step(name, job_id, index).get("with", {})
    )
    assert "github.event" not in given
    assert "github.head_ref" not in given


@pytest.mark.parametrize(("name", "job_id", "index"), STEPS)
def test_a_checkout_keeps_no_token_and_takes_no_pull_request(name: str, job_id: str, index: int) -> None:
    found = step(name, job_id, index)
    if found.get("uses", "").startswith("actions/checkout@"):
        options = found.get("with", {})
        assert "false" == options["persist-credentials"]
        assert options.get("ref", BASE) == BASE
        assert set(options) <= {"persist-credentials", "ref"}


@pytest.mark.parametrize("secret", ["MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET"])
def test_a_secret_is_named_in_the_job_of_its_environment_alone(secret: str) -> None:
    naming = {(name, job_id) for name, job_id in JOBS if f"secrets.{secret}" in everything(job(name, job_id))}

    assert {("evaluate.yml", "evaluate")} == naming
    assert "modal" == job("evaluate.yml", "evaluate")["environment"]


def test_the_folder_that_a_check_validates_stays_where_there_is_no_entry() -> None:
    commands = [found.get("run", "") for found in job("validate.yml", "validate")["steps"]]
    assert ".venv/bin/kbl validate --format github submissions/" in commands
    assert (ROOT / "submissions/README.md").is_file(), "git keeps no empty folder"


@pytest.mark.parametrize("entries", [0, 1])
def test_the_schema_is_held_against_entries_where_there_are_any(tmp_path: Path, entries: int) -> None:
    for name in ("Makefile", "pyproject.toml", "requirements.lock"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "submissions").mkdir()
    for number in range(entries):
        (tmp_path / f"submissions/entry-{number}.json").touch()
    said = subprocess.run(["make", "-n", "check"], cwd=tmp_path, capture_output=True, text=True, check=True)

    assert entries == said.stdout.count("submission.schema.json"), "a pattern of nothing is no file's name"


def test_no_other_secret_is_named_anywhere() -> None:
    named = re.findall(r"secrets\.(\w+)|secrets:\s*inherit", "".join(map(everything, WORKFLOWS.values())))
    assert {"MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET"} == set(named)


def test_the_job_with_the_secret_can_write_nothing_anywhere() -> None:
    evaluating = job("evaluate.yml", "evaluate")

    assert "write" not in evaluating["permissions"].values()
    assert "none" == evaluating["cache-mode"]
    assert "github.token" not in everything(evaluating)


def test_who_takes_from_the_queue_and_who_publishes_waits_in_line() -> None:
    for job_id, group in (("take", "take-from-the-queue"), ("publish", "publish-results")):
        assert {"group": group, "queue": "max"} == job("evaluate.yml", job_id)["concurrency"]


def test_a_limit_of_an_hour_is_shorter_than_the_jobs_that_wait_for_it() -> None:
    waits_s = read_settings(ROOT / ".github/evaluation.toml").host.limit_wait_s
    speaking = [
        (name, job_id)
        for name, job_id in JOBS
        if "kbl ci " in everything(job(name, job_id)) and "write" in job(name, job_id)["permissions"].values()
    ]
    assert waits_s > 3600
    assert {"board.yml", "comment.yml", "evaluate.yml"} == {name for name, _ in speaking}
    for name, job_id in speaking:
        assert waits_s < 60 * int(job(name, job_id)["timeout-minutes"]), (name, job_id)


@pytest.mark.parametrize(("name", "job_id", "index"), STEPS)
def test_nothing_sets_variables_or_paths_for_later_steps(name: str, job_id: str, index: int) -> None:
    assert not re.search(r"GITHUB_(ENV|PATH)\b", everything(step(name, job_id, index)))


@pytest.mark.parametrize(("name", "job_id", "index"), STEPS)
def test_an_artifact_is_fetched_by_its_number_into_the_runners_own_folder(
    name: str, job_id: str, index: int
) -> None:
    found = step(name, job_id, index)
    if found.get("uses", "").startswith("actions/download-artifact@"):
        assert {"artifact-ids", "path"} == set(found["with"])
        assert found["with"]["path"].startswith("${{ runner.temp }}/")


def test_the_event_policy_allows_the_privileged_event_for_one_file() -> None:
    policy = json.loads((ROOT / ".github/actions-policy.json").read_text("utf-8"))
    (rule,) = policy["rules"]

    assert {"name", "enforcement", "conditions", "rules"} == set(policy)
    assert "active" == policy["enforcement"]
    assert [".github/workflows/evaluate.yml"] == policy["conditions"]["workflow_path"]["include"]
    assert EVENTS["evaluate.yml"] == set(rule["parameters"]["allowed_events"])


def test_what_the_linters_say() -> None:
    bin_folder = Path(sys.executable).parent
    schema = [bin_folder / "check-jsonschema", "--builtin-schema"]
    forms = [path for path in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml"]
    commands = [
        [*schema, "vendor.github-workflows", *FOLDER.glob("*.yml")],
        [*schema, "vendor.github-issue-forms", *forms],
        [*schema, "vendor.dependabot", ROOT / ".github/dependabot.yml"],
        [bin_folder / "zizmor", "--offline", "--persona=pedantic", "--quiet", ROOT / ".github"],
    ]
    for command in commands:
        if not Path(command[0]).exists():
            pytest.skip(f"{command[0]} is not installed; pip install --group lint")
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert 0 == done.returncode, done.stdout + done.stderr


def test_every_exception_to_a_lint_says_why() -> None:
    for name in NAMES:
        for line in (FOLDER / name).read_text("utf-8").splitlines():
            if "zizmor: ignore" in line:
                assert re.search(r"zizmor: ignore\[[a-z-]+\] \S+( \S+){5,}", line)


GH = """#!/bin/sh
echo "$*" >> "$GH_LOG"
[ "$1 $2" != "release view" ] || [ -n "$GH_KNOWN" ]
"""


@pytest.mark.parametrize("known", ["", "yes"])
def test_a_release_has_the_days_name_and_is_renewed_on_the_same_day(tmp_path: Path, known: str) -> None:
    gh, log, tables = tmp_path / "gh", tmp_path / "log", tmp_path / "tables"
    gh.write_text(GH)
    gh.chmod(0o755)
    (tables / "data").mkdir(parents=True)
    for path in (tables / "README.md", tables / "data/kernels.parquet", tables / "data/entries.parquet"):
        path.touch()
    given = {"RUNNER_TEMP": str(tmp_path), "GH_LOG": str(log), "GH_KNOWN": known}
    path = f"{tmp_path}:/usr/bin:/bin"
    subprocess.run([ROOT / "scripts/release.sh"], env={**given, "PATH": path}, check=True)
    verbs = [line.split()[1] for line in log.read_text().splitlines()]
    assert verbs == (["view", "upload"] if known else ["view", "create", "upload"])
    last = log.read_text().splitlines()[-1].split()
    assert re.fullmatch(r"board-\d{4}-\d\d-\d\d", last[2])
    assert {Path(name).name for name in last[4:]} == {"README.md", "kernels.parquet", "entries.parquet"}
