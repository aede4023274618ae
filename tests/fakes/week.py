"""A week of a board in a time of its own: people, a host with an hourly allowance of calls, runs that get lost.

Real are the verbs of the workflows, the queue and the results in a git repository, and the REST client. Not real:
the time, the engine (`steady` judges by a kernel's first line, and takes as long as it is told), and the runners:
of a run only what its jobs call is carried out, in the order of evaluate.yml.
"""

from __future__ import annotations

import heapq
import itertools
import json
import os
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path

from fake_engine import FakeEngine
from kernel_evaluator.engines import epoch
from kernel_evaluator.records.rows import Environment

from fakes.fake_github import Host, Pull, serve
from fakes.project import PEOPLE, Project, make_origin, payload, submission
from leaderboard.files.store import StoreError
from leaderboard.github import host as host_module
from leaderboard.github.check import run_check, run_report
from leaderboard.github.evaluation import BILL, run_evaluation
from leaderboard.github.event import WorkflowRunner
from leaderboard.github.gate import run_gate, run_unlabel
from leaderboard.github.gitrepo import GitError
from leaderboard.github.host import HostError
from leaderboard.github.publish import Publication, run_publish
from leaderboard.github.settings import read_settings
from leaderboard.github.take import run_next, run_take
from leaderboard.stages import engines, money

MONDAY = datetime(2026, 11, 23, 8, tzinfo=UTC)
SECONDS_A_KERNEL = 24.2
RIGHTS = dict.fromkeys(("contents", "pull-requests", "statuses", "actions"), "write")
LIMIT = {"message": "API rate limit exceeded for installation"}


@dataclass
class Run:
    """One run of evaluate.yml that judges: what it took, and where its job and result lie."""

    number: int
    taken: dict[str, str]
    folder: Path


@dataclass
class Week:
    """The board's host and its people; `tell` hears what happens, line by line."""

    project: Project
    url: str
    folder: Path
    tell: Callable[[str], None]
    now: datetime = MONDAY
    minutes: float = 70.0
    at_once: int = 10
    fates: dict[int, str] = field(default_factory=dict)
    requests: Counter[datetime] = field(default_factory=Counter)
    asked_twice: list[str] = field(default_factory=list)
    busy: int = 0
    most_busy: int = 0
    first_result: datetime | None = None
    _events: list[tuple[datetime, int, Callable[[], None]]] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def at(self, when: datetime, deed: Callable[[], None]) -> None:
        """Plan a deed."""
        heapq.heappush(self._events, (when, next(self._numbers), deed))

    def go_on(self, until: datetime) -> None:
        """Let everything happen that is planned until then; every hour somebody looks after the lost."""
        hour = self.now.replace(minute=17)
        while hour < until:
            self.at(hour, self.work)
            hour += timedelta(hours=1)
        while self._events and self._events[0][0] <= until:
            self.now, _, deed = heapq.heappop(self._events)
            deed()

    def check(self, pull: Pull) -> None:
        """What a push starts: the check, and the comment on how it stands, when it begins and when it ends."""
        head = self.project.host.head_of(pull)
        _, checker = self._runner("pull_request", payload("pull_request.opened", pull, head, pull.author))
        self._job(checker, lambda api, settings: run_check(api, checker))
        for action in ("requested", "completed"):
            event = payload("workflow_run.completed", pull, head, pull.author) | {"action": action}
            _, runner = self._runner("workflow_run", event)
            self._job(runner, lambda api, settings, runner=runner: run_report(api, runner, settings))

    def label(self, pull: Pull, sender: str = "maria") -> None:
        """Somebody sets the label: the gate, and then one of the queue is taken."""
        pull.labels.append("evaluate")
        head = self.project.host.head_of(pull)
        number, runner = self._runner(
            "pull_request_target", payload("pull_request_target.labeled", pull, head, sender)
        )
        self.say(f"{sender} labels #{pull.number}")
        queued = self._job(runner, lambda api, settings: run_gate(api, runner, settings, self.now))
        self._job(runner, lambda api, _: run_unlabel(api, runner))
        self._say_comment(pull)
        if queued:
            self.take(number, runner)

    def work(self) -> None:
        """A run that was asked for by another, or by the hour."""
        self.take(*self._runner("repository_dispatch", {"sender": {"login": "github-actions[bot]"}}))

    def take(self, number: int, runner: WorkflowRunner) -> None:
        """Take one of the queue and begin to judge it, unless the run is lost."""
        folder = self.folder / str(number)
        shown = self._comments()
        done = self._job(
            runner, lambda api, settings: run_take(api, runner, settings, folder / "job", self.now)
        )
        self._say_changes(shown)
        taken = (
            dict(line.split("=", 1) for line in runner.output.read_text().splitlines())
            if done is not False and runner.output.exists()  # else nothing follows the job
            else {}
        )
        if taken:
            self.busy += 1
            self.most_busy = max(self.most_busy, self.busy)
            self.project.host.runs[number] = "in_progress"
            run = Run(number=number, taken=taken, folder=folder)
            fate = self.fates.pop(int(taken["pull"]), "")
            spent = self.minutes / 2 if fate else self.minutes
            self.at(self.now + timedelta(minutes=spent), lambda: self.end(run, runner, fate))
        self._dispatched()

    def end(self, run: Run, runner: WorkflowRunner, fate: str) -> None:
        """A run comes to its end: judged, cancelled while it judged, or lost as a whole."""
        self.busy -= 1
        self.project.host.runs[run.number] = "completed"
        if fate == "lost":
            self.say(f"the run of #{run.taken['pull']} is lost, and says nothing")
            return
        if fate == "cancelled":
            self.say(f"the job that judges #{run.taken['pull']} is cancelled")
        else:
            self._judge(run)
        environment = {name.upper(): value for name, value in run.taken.items()}
        asked = Publication.of(environment, run.folder / "result")
        shown = self._comments()
        self._job(runner, lambda api, settings: run_publish(api, runner, settings, asked, self.now))
        self._say_changes(shown)
        self.first_result = self.first_result or self.now
        self._job(runner, lambda api, settings: run_next(api, runner, settings))
        self._dispatched()

    def _judge(self, run: Run) -> None:
        with self._main():
            run_evaluation(read_settings(), run.folder / "job", run.folder / "result")
            kernels = len(
                json.loads(next((run.folder / "job/submission").glob("*.json")).read_text())["kernels"]
            )
        usd = kernels * SECONDS_A_KERNEL * epoch.judging_usd_per_second(epoch.price_of("steady", "CPU"))
        bill = {"usd": usd, "seconds": kernels * SECONDS_A_KERNEL, "calls": 1, "max_usd": 60.0}
        (run.folder / "result" / BILL).write_text(json.dumps(bill))

    def _dispatched(self) -> None:
        for _ in range(len(self.project.host.dispatched)):
            self.project.host.dispatched.pop()
            self.at(self.now + timedelta(minutes=1), self.work)

    def _job(self, runner: WorkflowRunner, verb: Callable) -> object:
        before = len(self.project.host.requests)
        try:
            with self._main():
                settings = read_settings()
                api = host_module.connect(
                    runner.api_url, runner.repository, runner.token, patience=settings.host
                )
                return verb(api, settings)
        except (HostError, GitError, StoreError) as error:
            self.say(f"a job fails: {type(error).__name__}")
            return False
        finally:
            hour = self.now.replace(minute=0)
            made = self.project.host.requests[before:]
            self.requests[hour] += len(made)
            gets = Counter(path for method, path in made if method == "GET")
            self.asked_twice += [path for path, count in gets.items() if count > 1]

    @contextmanager
    def _main(self) -> Iterator[None]:
        """Work in a fresh checkout of main, as every job does; what it logs is not ours to show."""
        clone, old = self.folder / "main", Path.cwd()
        if not clone.exists():
            subprocess.run(
                ["git", "clone", "-q", "--shared", str(self.project.host.git_dir), str(clone)], check=True
            )
        for command in (
            ["fetch", "-q", "origin", "main"],
            ["reset", "-q", "--hard", "FETCH_HEAD"],
            ["clean", "-qfdx"],
        ):
            subprocess.run(["git", "-C", str(clone), *command], check=True)
        os.chdir(clone)
        try:
            with redirect_stdout(StringIO()):
                yield
        finally:
            os.chdir(old)

    def _runner(self, name: str, data: dict) -> tuple[int, WorkflowRunner]:
        number = self.project.host.new_id() + 10_000
        place = self.folder / f"run-{number}"
        place.mkdir(parents=True)
        self.project.host.tokens[f"token-{number}"] = RIGHTS
        return number, WorkflowRunner(
            api_url=self.url,
            server_url=f"file://{self.project.host.git_dir.parents[1]}",
            repository="o/r",
            run_id=number,
            token=f"token-{number}",
            event_name=name,
            payload=data,
            output=place / "output",
        )

    def say(self, text: str) -> None:
        """Tell what happens now."""
        self.tell(f"{self.now:%a %H:%M}  {_COMMIT.sub('`a commit`', text)}")

    def _say_comment(self, pull: Pull) -> None:
        body = said(pull)
        notice = [line for line in body.split("\n") if line.startswith("> ") and "[!NOTE]" not in line]
        lines = body.split("\n")
        told = (
            f"{KERNELS} kernels for",
            "The entry was changed",
            "The pull request",
            "Its run",
            "The evaluation handed",
        )
        remark = next((line for line in lines if line.startswith(told)), "")
        self.say(f"    #{pull.number}: {notice[0][2:] if notice else title(pull)} {remark}".rstrip())

    def _comments(self) -> dict[int, str]:
        return {number: said(pull) for number, pull in self.project.host.pulls.items()}

    def _say_changes(self, before: dict[int, str]) -> None:
        for number, pull in self.project.host.pulls.items():
            if said(pull) != before.get(number, ""):
                self._say_comment(pull)


KERNELS = 3
_COMMIT = re.compile("`[0-9a-f]{12}`")


def said(pull: Pull) -> str:
    """The comment of the board on a pull request; empty where there is none."""
    return next(
        (item["body"] for item in pull.comments if item["user"]["login"] == "github-actions[bot]"), ""
    )


def title(pull: Pull) -> str:
    """The title of the board's comment on a pull request."""
    return next((line[4:] for line in said(pull).split("\n") if line.startswith("### ")), "")


class Steady(FakeEngine):
    """Judges by a kernel's first line, on the CPU's board."""

    def __init__(self) -> None:
        super().__init__(environment=Environment(device="a CPU", gpu="CPU"))


@contextmanager
def a_board(folder: Path, tell: Callable[[str], None], *, at_once: int = 10) -> Iterator[Week]:
    """Set a board up whose evaluations cost what they would cost on Modal."""
    origin = make_origin(folder / "origin")
    engines.ENGINES["steady"] = lambda *_: engines.Place(engine=Steady(), gpu="CPU")
    prices, seconds = dict(epoch._PRICES), money.SECONDS_WHERE_NOTHING_IS_RECORDED
    money.SECONDS_WHERE_NOTHING_IS_RECORDED = 1390.0  # an evaluation of three kernels takes 70 minutes
    epoch._PRICES["steady", "CPU"] = prices["modal", "H100"]
    host = Host(git_dir=origin, people={**PEOPLE, "paul": (1005, "maintain")})
    people = dict(PEOPLE)
    PEOPLE["paul"] = (1005, "maintain")
    try:
        with serve(host) as url:
            project = Project(host=host, runner=None, folder=folder)
            project.set_on_main("at_once = 4", f"at_once = {at_once}")
            yield Week(project=project, url=url, folder=folder / "runs", tell=tell, at_once=at_once)
    finally:
        money.SECONDS_WHERE_NOTHING_IS_RECORDED = seconds
        epoch._PRICES.clear()
        epoch._PRICES.update(prices)
        PEOPLE.clear()
        PEOPLE.update(people)


def entry(number: int, speedup: float = 2.0) -> dict[str, bytes]:
    """The files of a pull request that sends an entry."""
    kernels = [(f"level_1_problem_{n}_sample_0", f"# speedup {speedup}") for n in (19, 23, 36)]
    return {f"submissions/entry-{number}.json": submission(*kernels, name=f"Entry {number}")}
