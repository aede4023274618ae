"""A runner for our own workflow files: reads the YAML, decides every `if:`, fills every `env:`, runs every `run:`.

Real are the commands, the git repository behind `checkout` and `push`, the files that artifacts carry and the
rights of each job's token. Not real: actions are stood in for by what they do, and installing is left out.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from fakes import fake_github
from fakes.expressions import evaluate, fill, truthy

ROOT = Path(__file__).resolve().parents[2]
CRON = {"login": "maria"}
"""A schedule runs in the name of who wrote it last; its payload names nobody."""
SECRETS = {"modal": {"MODAL_TOKEN_ID": "ak-of-the-test", "MODAL_TOKEN_SECRET": "as-of-the-test"}}
STEP_TIMEOUT_S = 240
KBL = """#!/bin/sh
exec env PYTHONPATH="{clone}:{clone}/KernelBench:{tests}" {python} -m fakes.kbl "$@"
"""


def kbl_client(server: Path) -> list[str]:
    """The command that has a server of `fakes.kbl` run what is appended to it."""
    return [sys.executable, "-S", "-E", str(Path(__file__).with_name("kbl_client.py")), str(server)]


@contextmanager
def serve_kbl(folder: Path) -> Iterator[Path]:
    """Keep a server that forks for each command; yields its socket."""
    path = folder / "kbl.sock"
    paths = os.pathsep.join(map(str, (ROOT, ROOT / "KernelBench", ROOT / "tests")))
    command = [sys.executable, "-m", "fakes.kbl", "--serve", str(path)]
    server = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": paths})
    try:
        while not path.exists() and server.poll() is None:
            time.sleep(0.05)
        yield path
    finally:
        server.terminate()
        server.wait(10)


@dataclass
class Step:
    """One step that was decided upon: what it ran, with which environment, and what came of it."""

    name: str
    status: str = "queued"
    command: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    log: str = ""
    outputs: dict[str, str] = field(default_factory=dict)


@dataclass
class Job:
    """One job: its steps, its outputs and its result (success, failure or skipped)."""

    id: str
    name: str
    result: str = "queued"
    steps: list[Step] = field(default_factory=list)
    outputs: dict[str, str] = field(default_factory=dict)

    def step(self, name: str) -> Step:
        return next(step for step in self.steps if step.name == name)

    @property
    def log(self) -> str:
        return "\n".join(step.log for step in self.steps)


@dataclass
class Run:
    """One run of a workflow."""

    id: int
    jobs: dict[str, Job]
    artifacts: dict[str, Path] = field(default_factory=dict)
    site: Path | None = None
    attempt: int = 1
    again: Callable[[tuple[str, ...]], None] = lambda jobs: None

    @property
    def results(self) -> dict[str, str]:
        return {name: job.result for name, job in self.jobs.items()}

    @property
    def log(self) -> str:
        return "\n".join(job.log for job in self.jobs.values())


class Runner:
    """Runs workflows of the repository behind `host`, whose API is at `api_url`."""

    def __init__(self, host: fake_github.Host, api_url: str, folder: Path, kbl: Path | None = None) -> None:
        """Set up; `kbl` is the socket of a server that forks for each command, where processes shall be spared."""
        self.host = host
        self.kbl = kbl
        self.api_url = api_url
        self.folder = folder
        self.with_site = False
        """Whether called workflows run too: building the site takes its time."""
        self.extra: dict[str, str] = {}
        """Variables of the machine itself, for tests that break it."""

    def run(self, workflow: str, event: str, payload: dict[str, Any], head: str = "main") -> Run:
        """Run a workflow file for an event; `head` is what `checkout` takes by itself."""
        run = Run(id=self.host.new_id() + 4000, jobs={})
        given = {
            "event": payload,
            "event_name": event,
            "ref": "refs/heads/main",
            "workflow": workflow.removesuffix(".yml"),
        }
        inputs = payload.get("inputs", {})
        run.again = lambda jobs: self._run_file(
            run, workflow, {"github": given, "inputs": inputs}, head, jobs
        )
        return self._carry_out(run, ())

    def rerun(self, run: Run, *jobs: str) -> Run:
        """Run these jobs of a run again with those that need them, or all; what the others gave stays."""
        run.attempt += 1
        return self._carry_out(run, jobs)

    def _carry_out(self, run: Run, jobs: tuple[str, ...]) -> Run:
        self.host.runs[run.id] = "in_progress"
        run.again(jobs)
        self.host.runs[run.id] = "completed"
        return run

    def _run_file(
        self, run: Run, workflow: str, context: dict[str, Any], head: str, chosen: tuple[str, ...] = ()
    ) -> None:
        definition = yaml.load((ROOT / ".github/workflows" / workflow).read_text("utf-8"), yaml.BaseLoader)
        jobs = definition["jobs"]
        wanted = {
            job_id for job_id in jobs if not chosen or {job_id, *_ancestors(jobs, job_id)} & set(chosen)
        }
        run.jobs |= {job_id: Job(id=job_id, name=jobs[job_id].get("name", job_id)) for job_id in wanted}
        context = {**context, "github": {**context["github"], "run_attempt": run.attempt}}
        done = {job_id: threading.Event() for job_id in jobs}
        for job_id in jobs.keys() - wanted:
            done[job_id].set()
        with ThreadPoolExecutor(len(jobs)) as pool:
            started = [
                pool.submit(self._when_ready, run, jobs, job_id, done, context, head)
                for job_id in jobs
                if job_id in wanted
            ]
            for future in started:
                future.result()

    def _when_ready(self, run, jobs, job_id, done, context, head) -> None:
        try:
            needs = jobs[job_id].get("needs", [])
            needs = [needs] if isinstance(needs, str) else needs
            for other in needs:
                done[other].wait()
            known = {
                other: {"result": run.jobs[other].result, "outputs": run.jobs[other].outputs}
                for other in needs
            }
            fine = all(run.jobs[other].result == "success" for other in _ancestors(jobs, job_id))
            context = {**context, "needs": known, "vars": {}, "functions": _functions(fine)}
            if truthy(evaluate(jobs[job_id].get("if", "success()"), context)):
                self._run_job(run, jobs[job_id], run.jobs[job_id], context, head)
            else:
                run.jobs[job_id].result = "skipped"
        finally:
            done[job_id].set()

    def _run_job(self, run: Run, definition: dict, job: Job, context: dict[str, Any], head: str) -> None:
        if "uses" in definition:
            if not self.with_site:
                job.result = "success"
                return
            called = Run(id=run.id + 1000, jobs={}, artifacts=run.artifacts)
            self._run_file(called, Path(definition["uses"]).name, context, head)
            job.result = "success" if set(called.results.values()) <= {"success", "skipped"} else "failure"
            run.site = called.site
            return
        job.result = "in_progress"
        place = self.folder / f"{run.id}-{run.attempt}-{job.id}"
        (place / "temp").mkdir(parents=True)
        token = f"token-{run.id}-{job.id}"
        self.host.tokens[token] = self._rights(definition, context)
        context = {
            **context,
            "github": {**context["github"], "token": token},
            "runner": {"temp": str(place / "temp")},
            "secrets": self._secrets(definition, context),
        }
        self._run_steps(run, definition, job, context, place, head)
        job.outputs = {name: fill(text, context) for name, text in definition.get("outputs", {}).items()}

    def _run_steps(self, run, definition, job, context, place, head) -> None:
        job.steps = [Step(name=step.get("name") or step.get("uses", "")) for step in definition["steps"]]
        context["steps"] = {}
        fine = True
        for step, made in zip(definition["steps"], job.steps, strict=True):
            context["functions"] = _functions(fine)
            if not truthy(evaluate(step.get("if", "success()"), context)):
                made.status = "skipped"
                continue
            made.status = "in_progress"
            ok = self._run_step(run, step, made, context, place, head)
            made.status = "success" if ok else "failure"
            fine = fine and ok
            if "id" in step:
                context["steps"][step["id"]] = {"outputs": made.outputs}
        job.result = "success" if fine else "failure"

    def _run_step(self, run, step, made, context, place, head) -> bool:
        if "run" in step:
            return self._run_command(run, step, made, context, place)
        options = {name: fill(text, context) for name, text in step.get("with", {}).items()}
        action = step["uses"].partition("@")[0]
        work = place / "work"
        if action == "actions/checkout":
            self._check_out(work, options.get("ref") or head)
        elif action == "actions/upload-artifact":
            return _upload(run, made, place, options)
        elif action == "actions/upload-pages-artifact":
            run.artifacts["pages"] = work / options["path"]
        elif action == "actions/download-artifact":
            shutil.copytree(run.artifacts[options["artifact-ids"]], options["path"], dirs_exist_ok=True)
        elif action == "actions/deploy-pages":
            run.site = run.artifacts["pages"]
        elif action != "actions/setup-python":
            raise AssertionError(f"no stand-in for {action}")
        return True

    def _check_out(self, work: Path, ref: str) -> None:
        clone = ["git", "clone", "-q", "--shared", "--no-checkout", str(self.host.git_dir), str(work)]
        subprocess.run(clone, check=True)  # shared, so that a pull request's commit is at hand too
        subprocess.run(["git", "-C", str(work), "checkout", "-q", ref], check=True)

    def _run_command(self, run, step, made, context, place) -> bool:
        made.command = step["run"]
        made.environment = {name: fill(text, context) for name, text in step.get("env", {}).items()}
        work = place / "work"
        script = shlex.split(made.command)[0]
        if script == "scripts/install.sh":
            return self._install(work)
        if script == "scripts/fonts.sh":
            return True  # it changes the system's packages
        output, event = place / f"output-{len(made.command)}-{made.name}", place / "event.json"
        event.write_text(json.dumps(context["github"]["event"]))
        done = subprocess.run(
            ["bash", "-e", "-c", made.command],
            cwd=work,
            env={**self._environment(run, context, place), "GITHUB_OUTPUT": str(output), **made.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=STEP_TIMEOUT_S,
            check=False,
        )
        made.log = done.stdout.decode("utf-8", "replace")
        if output.exists():
            made.outputs = dict(line.split("=", 1) for line in output.read_text().splitlines())
        return done.returncode == 0

    def _install(self, work: Path) -> bool:
        shim = work / ".venv/bin/kbl"
        shim.parent.mkdir(parents=True)
        if self.kbl:
            shim.write_text(f'#!/bin/sh\nexec {shlex.join(kbl_client(self.kbl))} "$@"\n')
        else:
            shim.write_text(KBL.format(clone=work, tests=ROOT / "tests", python=sys.executable))
        shim.chmod(0o755)
        return True

    def _environment(self, run: Run, context: dict[str, Any], place: Path) -> dict[str, str]:
        names = ("PATH", "HOME", "LANG", "GIT_TEMPLATE_DIR")
        kept = {name: os.environ[name] for name in names if name in os.environ}
        return {
            **kept,
            **self.extra,
            "CI": "true",
            "OMP_NUM_THREADS": "1",
            "GITHUB_API_URL": self.api_url,
            "GITHUB_SERVER_URL": f"file://{self.host.git_dir.parents[1]}",
            "GITHUB_REPOSITORY": fake_github.NAME,
            "GITHUB_RUN_ID": str(run.id),
            "GITHUB_RUN_ATTEMPT": str(run.attempt),
            "GITHUB_EVENT_NAME": context["github"]["event_name"],
            "GITHUB_EVENT_PATH": str(place / "event.json"),
            "GITHUB_TRIGGERING_ACTOR": context["github"]["event"].get("sender", CRON)["login"],
            "GITHUB_STEP_SUMMARY": str(place / "summary.md"),
            "RUNNER_TEMP": str(place / "temp"),
        }

    def _rights(self, definition: dict, context: dict[str, Any]) -> dict[str, str]:
        """A job's permissions; an event of a fork's own gets none to write, whatever the file says."""
        rights = dict(definition.get("permissions", {}))
        if context["github"]["event_name"] == "pull_request":
            return dict.fromkeys(rights, "read")
        return rights

    def _secrets(self, definition: dict, context: dict[str, Any]) -> dict[str, str]:
        if context["github"]["event_name"] == "pull_request":
            return {}
        return SECRETS.get(str(definition.get("environment", "")), {})


def _functions(fine: bool) -> dict[str, bool]:
    return {"always": True, "cancelled": False, "success": fine, "failure": not fine}


def _ancestors(jobs: dict[str, Any], job_id: str) -> set[str]:
    needs = jobs[job_id].get("needs", [])
    found = set([needs] if isinstance(needs, str) else needs)
    return found.union(*(_ancestors(jobs, other) for other in found))


def _upload(run: Run, made: Step, place: Path, options: dict[str, str]) -> bool:
    source = Path(options["path"])
    if not source.is_dir() or not any(source.iterdir()):
        return options.get("if-no-files-found") != "error"
    number = str(len(run.artifacts) + 1)
    run.artifacts[number] = place / f"artifact-{number}"
    shutil.copytree(source, run.artifacts[number])
    made.outputs = {"artifact-id": number}
    return True
