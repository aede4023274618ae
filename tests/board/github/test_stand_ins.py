"""The stand-ins and the workflows, held against GitHub's and Modal's own material: what drifts, fails here.

Replies are fewer fields than the host's, never other ones: each must be in GitHub's OpenAPI document with that type.
"""

import ast
import inspect
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("github")

from fakes import fake_github
from fakes.week import a_board, entry

ROOT = Path(__file__).resolve().parents[3]
TOOLS = ROOT / "tests/tools/github"
PAYLOADS = ROOT / "tests/fakes/payloads"
KNOWN = ("Unexpected value 'cache-mode'",)
"""What version 0.3.61 of the parser does not know yet; GitHub has it since September 2026."""


@pytest.fixture(scope="module")
def tools() -> Path:
    """Install what package-lock.json names, once; the test machine's registry serves it."""
    if shutil.which("npm") is None:
        pytest.skip("no npm: apt-get install npm")
    if not (TOOLS / "node_modules/@octokit/openapi").is_dir():
        command = ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
        done = subprocess.run(command, cwd=TOOLS, capture_output=True, text=True, timeout=240, check=False)
        if done.returncode:
            pytest.skip(f"npm ci failed in {TOOLS}: {done.stderr.strip().splitlines()[-1:]}")
    return TOOLS / "node_modules"


@pytest.fixture(scope="module")
def openapi(tools: Path) -> dict[str, Any]:
    return json.loads((tools / "@octokit/openapi/generated/api.github.com.json").read_text("utf-8"))


class Spec:
    """The parts of GitHub's document that say what a call is, and what answers it."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self.paths = [
            (re.compile(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(path)) + "$"), path, calls)
            for path, calls in document["paths"].items()
            if path.startswith("/repos/{owner}/{repo}/")
        ]

    def call(self, method: str, path: str) -> dict[str, Any]:
        found = [
            (p, calls) for pattern, p, calls in self.paths if pattern.match(path) and method.lower() in calls
        ]
        assert found, f"GitHub has no call {method} {path}"
        return min(found, key=lambda item: item[0].count("{"))[1][method.lower()]

    def errors(self, value: Any, schema: dict[str, Any], where: str) -> list[str]:
        """Say what of a value the schema does not have, or has as something else."""
        schema = self._resolved(schema)
        kinds = [self._resolved(one) for word in ("oneOf", "anyOf") for one in schema.get(word, [])]
        if kinds:
            tried = [self.errors(value, kind, where) for kind in kinds]
            return min(tried, key=len)
        if value is None:
            fine = schema.get("nullable") or "null" in str(schema.get("type", ""))
            return [] if fine else [f"{where} may not be null"]
        if isinstance(value, dict):
            return self._object(value, schema, where)
        if isinstance(value, list):
            items = schema.get("items", {})
            return [e for n, item in enumerate(value[:3]) for e in self.errors(item, items, f"{where}[{n}]")]
        wanted = schema.get("type")
        names = {str: "string", bool: "boolean", int: "integer", float: "number"}
        if wanted and names[type(value)] not in (wanted if isinstance(wanted, list) else [wanted]):
            return [f"{where} is {names[type(value)]}, GitHub's is {wanted}"]
        if "enum" in schema and value not in schema["enum"]:
            return [f"{where} is {value!r}, GitHub's are {schema['enum']}"]
        return []

    def _object(self, value: dict[str, Any], schema: dict[str, Any], where: str) -> list[str]:
        known = dict(schema.get("properties", {}))
        for part in schema.get("allOf", []):
            known |= self._resolved(part).get("properties", {})
        if not known or schema.get("additionalProperties"):
            return []
        unknown = [f"{where}.{name} is nothing of GitHub's" for name in value.keys() - known.keys()]
        inner = [
            e
            for name in value.keys() & known
            for e in self.errors(value[name], known[name], f"{where}.{name}")
        ]
        return unknown + inner

    def _resolved(self, schema: dict[str, Any]) -> dict[str, Any]:
        while "$ref" in schema:
            found: Any = self.document
            for part in schema["$ref"].removeprefix("#/").split("/"):
                found = found[part]
            schema = found
        return schema

    def answer(self, call: dict[str, Any], status: int) -> dict[str, Any] | None:
        """Give the schema of an answer; None where it has no content."""
        found = self._resolved(call["responses"][str(status)])
        content = found.get("content", {})
        return next(iter(content.values()))["schema"] if content else None

    def question(self, call: dict[str, Any]) -> dict[str, Any]:
        """Give the schema of what a call takes."""
        return self._resolved(call["requestBody"])["content"]["application/json"]["schema"]


@pytest.fixture(scope="module")
def heard(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str, dict, fake_github.Reply]]:
    """Every call of a label's way to its result, of a check and of a refusal, with what the stand-in answered."""
    calls: list[tuple[str, str, dict, fake_github.Reply]] = []
    answer = fake_github.answer

    def hearing(method: str, path: str, request: fake_github.Request) -> fake_github.Reply:
        reply = answer(method, path, request)
        calls.append((method, path, request.body, reply))
        return reply

    fake_github.answer = hearing
    try:
        with a_board(tmp_path_factory.mktemp("board"), lambda line: None, at_once=1) as week:
            for number in (1, 2):
                week.label(week.project.open_pull(entry(number), number=number))
            week.label(week.project.open_pull(entry(3), number=3), "mallory")
            week.go_on(week.now.replace(hour=20))
    finally:
        fake_github.answer = answer
    return calls


def test_every_reply_of_the_stand_in_is_one_that_github_documents(openapi: dict, heard: list) -> None:
    spec, wrong = Spec(openapi), []
    for method, path, _, reply in heard:
        call = spec.call(method, path)
        if str(reply.status) not in call["responses"]:
            wrong.append(f"{method} {path} never answers {reply.status}")
            continue
        schema = spec.answer(call, reply.status)
        if schema is not None:
            wrong += spec.errors(reply.payload, schema, f"{method} {path}")

    assert {"GET", "POST", "PATCH", "DELETE"} == {method for method, *_ in heard}
    assert [] == sorted(set(wrong))


def test_every_call_says_what_github_documents(openapi: dict, heard: list) -> None:
    spec = Spec(openapi)
    wrong = [
        error
        for method, path, body, _ in heard
        if body
        for error in spec.errors(body, spec.question(spec.call(method, path)), f"{method} {path}")
    ]

    assert [] == sorted(set(wrong))


def test_what_is_no_field_of_githubs_is_found(openapi: dict) -> None:
    spec = Spec(openapi)
    schema = spec.answer(spec.call("GET", "/repos/o/r/pulls/7"), 200)

    assert 2 == len(spec.errors({"number": "7", "colour": "red"}, schema, "x"))
    with pytest.raises(AssertionError, match="no call"):
        spec.call("GET", "/repos/o/r/pulls/7/verdict")


@pytest.mark.parametrize("path", sorted(PAYLOADS.glob("*.json")), ids=lambda path: path.stem)
def test_every_event_has_the_fields_of_githubs_examples(tools: Path, path: Path) -> None:
    name = path.stem.partition(".")[0].removesuffix("_target")
    listed = json.loads((tools / "@octokit/webhooks-examples/api.github.com/index.json").read_text("utf-8"))
    (examples,) = [event["examples"] for event in listed if event["name"] == name]
    ours = json.loads(path.read_text("utf-8"))

    assert [] == min((_strange(ours, example, name) for example in examples), key=len)


def _strange(ours: Any, example: Any, where: str) -> list[str]:
    """Name the fields that GitHub's example lacks, or has as something of another kind."""
    if isinstance(ours, dict) and isinstance(example, dict) and where.rpartition(".")[2] != "inputs":
        found = [f"{where}.{name}" for name in ours.keys() - example.keys()]
        return found + [
            e for n in ours.keys() & example for e in _strange(ours[n], example[n], f"{where}.{n}")
        ]
    same = None in (ours, example) or isinstance(ours, type(example))
    return [] if same else [f"{where} is {type(ours).__name__}"]


def test_githubs_own_parser_takes_every_workflow(tools: Path) -> None:
    workflows = sorted((ROOT / ".github/workflows").glob("*.yml"))
    command = ["node", str(TOOLS / "check_workflows.mjs"), *map(str, workflows)]
    said = subprocess.run(command, capture_output=True, text=True, check=False)

    assert "" == said.stderr
    assert [] == [line for line in said.stdout.splitlines() if not any(word in line for word in KNOWN)]


def test_githubs_own_parser_refuses_what_is_wrong(tools: Path, tmp_path: Path) -> None:
    text = (ROOT / ".github/workflows/evaluate.yml").read_text("utf-8")
    (tmp_path / "bad.yml").write_text(text.replace("secrets.MODAL_TOKEN_ID", "secretz.MODAL_TOKEN_ID"))
    command = ["node", str(TOOLS / "check_workflows.mjs"), str(tmp_path / "bad.yml")]

    assert "secretz" in subprocess.run(command, capture_output=True, text=True, check=False).stdout


def test_modals_client_takes_every_word_that_our_app_says() -> None:
    modal = pytest.importorskip("modal")
    tree = ast.parse((ROOT / "KernelBench/kernel_evaluator/engines/modal_app.py").read_text("utf-8"))
    owners = (modal.App, modal.Image, modal)
    words = 0
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        if not isinstance(call.func, ast.Attribute) or not call.keywords:
            continue
        found = [getattr(owner, call.func.attr) for owner in owners if hasattr(owner, call.func.attr)]
        assert found, f"modal has no {call.func.attr}"
        taken = inspect.signature(found[0]).parameters
        for keyword in call.keywords:
            assert keyword.arg in taken, f"{call.func.attr} takes no {keyword.arg}"
            words += 1

    assert words > 20
