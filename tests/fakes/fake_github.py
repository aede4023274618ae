"""A host with state: the REST calls that the board makes, answered from a bare git repository and a little memory.

Tokens carry permissions, as those of a workflow's job do, and a call without the right is refused: so a workflow
that asks for too little fails here too. `faults` makes the next matching calls fail first.
"""

from __future__ import annotations

import base64
import json
import re
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

NAME = "o/r"
LONGEST_COMMENT = 65_536
BOT = {"login": "github-actions[bot]", "id": 41898282, "type": "Bot"}


@dataclass
class Pull:
    """A pull request: its head is the git reference refs/pull/<number>/head."""

    number: int
    author: str
    branch: str
    state: str = "open"
    base_sha: str = ""
    base_ref: str = "main"
    merge_commit: str = ""
    labels: list[str] = field(default_factory=list)
    comments: list[dict] = field(default_factory=list)


@dataclass
class Fault:
    """How often calls of this method and path fail, and with what."""

    method: str
    path: str
    times: int
    status: int = 500
    body: dict = field(default_factory=lambda: {"message": "Server Error"})
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Host:
    """The repository `o/r` with its people, pull requests, statuses and runs."""

    git_dir: Path
    people: dict[str, tuple[int, str]] = field(default_factory=dict)
    pulls: dict[int, Pull] = field(default_factory=dict)
    statuses: list[dict] = field(default_factory=list)
    runs: dict[int, str] = field(default_factory=dict)
    """The status of every run that is known; one that was deleted is not."""
    dispatched: list[str] = field(default_factory=list)
    tokens: dict[str, dict[str, str]] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    requests: list[tuple[str, str]] = field(default_factory=list)
    limits_each: bool = False
    """Whether every call meets a limit the first time."""
    limit_at: int | None = None
    """The number of the one call that meets a limit, which is renewed at once."""
    broken_from: int | None = None
    """The number of the call from which on all calls fail."""
    longest_list: int = 100_000
    """Items of a tree that are listed; GitHub's own limit."""
    lock: threading.RLock = field(default_factory=threading.RLock)
    _ids: int = 0

    def new_id(self) -> int:
        self._ids += 1
        return self._ids

    def git(self, *arguments: str, text: bool = True):
        done = subprocess.run(
            ["git", "-C", str(self.git_dir), *arguments], capture_output=True, check=True, text=text
        )
        return done.stdout.strip() if text else done.stdout

    def user(self, login: str) -> dict | None:
        """Describe an account; nothing is known of one that is gone."""
        if login not in self.people:
            return None
        return {"login": login, "id": self.people[login][0], "type": "User"}

    def head_of(self, pull: Pull) -> str:
        return self.git("rev-parse", f"refs/pull/{pull.number}/head")


@dataclass(frozen=True)
class Request:
    host: Host
    base: str
    query: dict[str, list[str]]
    body: dict
    rights: dict[str, str]

    def page(self, items: list) -> list:
        size, page = int(self.first("per_page", "30")), int(self.first("page", "1"))
        return items[(page - 1) * size : page * size]

    def first(self, name: str, default: str) -> str:
        return self.query.get(name, [default])[0]


@dataclass(frozen=True)
class Reply:
    payload: object
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


ROUTES: list[tuple[str, re.Pattern[str], str, Callable[..., Reply]]] = []
NOT_FOUND = Reply({"message": "Not Found"}, status=404)


def route(method: str, pattern: str, right: str = "metadata:read") -> Callable:
    """Register a call with the right that a token needs for it."""

    def register(function: Callable[..., Reply]) -> Callable[..., Reply]:
        ROUTES.append((method, re.compile(f"/repos/{NAME}{pattern}"), right, function))
        return function

    return register


@route("GET", r"/pulls/(\d+)", "pull-requests:read")
def read_pull(request: Request, number: str) -> Reply:
    pull = request.host.pulls.get(int(number))
    return Reply(pull_payload(request, pull)) if pull else NOT_FOUND


@route("GET", "/pulls", "pull-requests:read")
def list_pulls(request: Request) -> Reply:
    state, head = request.first("state", "open"), request.first("head", "")
    found = [
        pull
        for pull in request.host.pulls.values()
        if pull.state == state and head in ("", f"{pull.author}:{pull.branch}")
    ]
    return Reply(request.page([pull_payload(request, pull) for pull in found]))


def pull_payload(request: Request, pull: Pull) -> dict:
    host, root = request.host, f"{request.base}/repos/{NAME}"
    return {
        "number": pull.number,
        "state": pull.state,
        "merged_at": "2026-01-02T03:04:05Z" if pull.merge_commit else None,
        "url": f"{root}/pulls/{pull.number}",
        "issue_url": f"{root}/issues/{pull.number}",
        "user": host.user(pull.author),
        "head": {"sha": host.head_of(pull), "ref": pull.branch},
        "base": {"sha": pull.base_sha, "ref": pull.base_ref},
        "labels": [{"name": name} for name in pull.labels],
    }


@route("GET", r"/compare/(.+)\.\.\.([0-9a-f]{40})", "contents:read")
def compare(request: Request, base: str, head: str) -> Reply:
    git = request.host.git
    fork = git("merge-base", base, head)
    words = {"A": "added", "M": "modified", "D": "removed", "R": "renamed", "T": "changed"}
    files = []
    facts = iter(git("diff", "--raw", "-z", "--no-abbrev", "-M", fork, head).split("\0"))
    for fact in facts:
        if fact:
            _, _, _, sha, kind = fact.split()
            previous = {"previous_filename": next(facts)} if kind[0] == "R" else {}
            files.append({"filename": next(facts), "status": words[kind[0]], "sha": sha, **previous})
    root = f"{request.base}/repos/{NAME}/commits"
    ahead = [
        line.split() for line in git("rev-list", "--parents", "--reverse", f"{base}..{head}").splitlines()
    ]
    commits = [[{"sha": sha, "url": f"{root}/{sha}"} for sha in line] for line in ahead]
    return Reply(
        {
            "status": "ahead",
            "merge_base_commit": {"sha": fork, "url": f"{root}/{fork}"},
            "files": files[:300],
            "commits": request.page([{**commit, "parents": parents} for commit, *parents in commits]),
            "total_commits": len(commits),
        }
    )


@route("GET", "/branches/([^/]+)", "contents:read")
def read_branch(request: Request, name: str) -> Reply:
    sha = request.host.git("rev-parse", f"refs/heads/{name}")
    root = f"{request.base}/repos/{NAME}/commits/{sha}"
    return Reply({"name": name, "commit": {"sha": sha, "url": root}})


@route("GET", r"/git/trees/(.+)", "contents:read")
def read_tree(request: Request, name: str) -> Reply:
    """Answer as the host does: a folder's mode has six digits, a submodule is a commit; long lists are cut."""
    listed = request.host.git("ls-tree", "-l", "-z", name).split("\0")
    tree = []
    for line in filter(None, listed):
        facts, path = line.split("\t", 1)
        mode, kind, sha, size = facts.split()
        item = {"path": path, "mode": mode, "type": kind, "sha": sha}
        tree.append(item | ({"size": int(size)} if kind == "blob" else {}))
    most = request.host.longest_list
    sha = request.host.git("rev-parse", f"{name}^{{tree}}")
    return Reply({"sha": sha, "tree": tree[:most], "truncated": len(tree) > most})


@route("GET", "/git/blobs/([0-9a-f]{40})", "contents:read")
def read_blob(request: Request, sha: str) -> Reply:
    content = request.host.git("cat-file", "blob", sha, text=False)
    encoded = base64.b64encode(content).decode()
    return Reply({"sha": sha, "encoding": "base64", "size": len(content), "content": encoded})


@route("GET", "/collaborators/([^/]+)/permission")
def read_role(request: Request, login: str) -> Reply:
    """Every living account has a role, strangers too; who is not in `people` is gone."""
    if login not in request.host.people:
        return NOT_FOUND
    role = request.host.people[login][1]
    legacy = {"maintain": "write", "triage": "read", "none": "none"}.get(role, role)
    return Reply({"permission": legacy, "role_name": role, "user": request.host.user(login)})


@route("GET", "/commits", "contents:read")
def list_commits(request: Request) -> Reply:
    arguments = ["log", "--format=%H", request.first("sha", "main"), "--", request.first("path", ".")]
    names = request.host.git(*arguments).splitlines()
    root = f"{request.base}/repos/{NAME}/commits"
    return Reply(request.page([{"sha": sha, "url": f"{root}/{sha}"} for sha in names]))


@route("GET", "/commits/([0-9a-f]{40})/pulls", "pull-requests:read")
def pulls_of_commit(request: Request, sha: str) -> Reply:
    found = [pull for pull in request.host.pulls.values() if pull.merge_commit == sha]
    return Reply([pull_payload(request, pull) for pull in found])


@route("GET", "/commits/([0-9a-f]{40})", "contents:read")
def read_commit(request: Request, sha: str) -> Reply:
    return Reply({"sha": sha, "url": f"{request.base}/repos/{NAME}/commits/{sha}"})


@route("POST", "/statuses/([0-9a-f]{40})", "statuses:write")
def set_status(request: Request, sha: str) -> Reply:
    if len(request.body.get("description", "")) > 140:
        return Reply({"message": "description is too long (maximum is 140 characters)"}, status=422)
    request.host.statuses.append({**request.body, "sha": sha})
    return Reply(request.body, status=201)


@route("GET", r"/issues/(\d+)", "pull-requests:read")
def read_issue(request: Request, number: str) -> Reply:
    pull = request.host.pulls[int(number)]
    url = f"{request.base}/repos/{NAME}/issues/{number}"
    return Reply({"number": pull.number, "url": url, "labels": [{"name": name} for name in pull.labels]})


@route("POST", "/dispatches", "contents:write")
def dispatch(request: Request) -> Reply:
    request.host.dispatched.append(request.body["event_type"])
    return Reply({}, status=204)


@route("GET", r"/issues/(\d+)/comments", "pull-requests:read")
def list_comments(request: Request, number: str) -> Reply:
    comments = request.host.pulls[int(number)].comments
    page, size = int(request.first("page", "1")), int(request.first("per_page", "30"))
    target = f"{request.base}/repos/{NAME}/issues/{number}/comments?per_page={size}&page={page + 1}"
    more = {"Link": f'<{target}>; rel="next"'} if page * size < len(comments) else {}
    return Reply(request.page(comments), headers=more)


@route("POST", r"/issues/(\d+)/comments", "pull-requests:write")
def create_comment(request: Request, number: str) -> Reply:
    if len(request.body["body"]) > LONGEST_COMMENT:
        return Reply({"message": "body is too long (maximum is 65536 characters)"}, status=422)
    found = request.host.new_id()
    url = f"{request.base}/repos/{NAME}/issues/comments/{found}"
    comment = {"id": found, "body": request.body["body"], "url": url, "user": BOT}
    request.host.pulls[int(number)].comments.append(comment)
    return Reply(comment, status=201)


@route("(?:PATCH|DELETE)", r"/issues/comments/(\d+)", "pull-requests:write")
def change_comment(request: Request, number: str) -> Reply:
    for pull in request.host.pulls.values():
        for comment in [item for item in pull.comments if item["id"] == int(number)]:
            if "body" not in request.body:
                pull.comments.remove(comment)
                return Reply({}, status=204)
            if len(request.body["body"]) > LONGEST_COMMENT:
                return Reply({"message": "body is too long (maximum is 65536 characters)"}, status=422)
            comment["body"] = request.body["body"]
            return Reply(comment)
    return NOT_FOUND


@route("POST", r"/issues/(\d+)/labels", "pull-requests:write")
def add_labels(request: Request, number: str) -> Reply:
    labels = request.host.pulls[int(number)].labels
    wanted = request.body if isinstance(request.body, list) else request.body["labels"]
    labels += [name for name in wanted if name not in labels]
    return Reply([{"name": name} for name in labels])


@route("DELETE", r"/issues/(\d+)/labels/(.+)", "pull-requests:write")
def remove_label(request: Request, number: str, name: str) -> Reply:
    labels = request.host.pulls[int(number)].labels
    if name not in labels:
        return Reply({"message": "Label does not exist"}, status=404)
    labels.remove(name)
    return Reply([])


@route("GET", r"/actions/runs/(\d+)", "actions:read")
def read_run(request: Request, number: str) -> Reply:
    root = f"{request.base}/repos/{NAME}/actions/runs/{number}"
    status = request.host.runs.get(int(number))
    return Reply({"id": int(number), "url": root, "status": status}) if status else NOT_FOUND


def answer(method: str, path: str, request: Request) -> Reply:
    """Give a prepared fault, or the route's reply where the token has the right."""
    host = request.host
    limited = host.limits_each and len(host.requests) % 2 == 1
    if limited or len(host.requests) == host.limit_at:
        return Reply({"message": "API rate limit exceeded for installation"}, 403, {"Retry-After": "1"})
    if host.broken_from is not None and len(host.requests) >= host.broken_from:
        return Reply({"message": "Server Error"}, 500)
    for fault in host.faults:
        if fault.times > 0 and fault.method == method and re.search(fault.path, path):
            fault.times -= 1
            return Reply(fault.body, fault.status, fault.headers)
    for wanted, pattern, right, function in ROUTES:
        found = pattern.fullmatch(path) if re.fullmatch(wanted, method) else None
        if found:
            if not allows(request.rights, right):
                return Reply({"message": "Resource not accessible by integration"}, status=403)
            return function(request, *map(unquote, found.groups()))
    return Reply({"message": f"no route for {method} {path}"}, status=501)


def allows(rights: dict[str, str], right: str) -> bool:
    """Say whether a token's permissions hold the right; metadata is readable for every token."""
    scope, _, level = right.partition(":")
    return scope == "metadata" or rights.get(scope) == "write" or rights.get(scope) == level


def handler_for(host: Host) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # else each reply waits 40 ms for its head to be acknowledged

        def answer_any(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
            url = urlsplit(self.path)
            token = (self.headers.get("Authorization") or "").rpartition(" ")[2]
            with host.lock:
                host.requests.append((self.command, self.path))
                rights = host.tokens.get(token, {})
                base = f"http://{self.headers['Host']}"
                try:
                    request = Request(host, base, parse_qs(url.query), body, rights)
                    reply = answer(self.command, url.path, request)
                except subprocess.CalledProcessError:
                    reply = NOT_FOUND
            self._send(reply)

        def _send(self, reply: Reply) -> None:
            payload = b"" if reply.status == 204 else json.dumps(reply.payload).encode()
            self.send_response(reply.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(payload)))
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(payload)

        do_GET = do_POST = do_PATCH = do_DELETE = answer_any

        def log_message(self, *_: object) -> None:
            """Keep the test's output quiet."""

    return Handler


@contextmanager
def serve(host: Host) -> Iterator[str]:
    """Serve the host's API on a free loopback port; yields its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler_for(host))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
