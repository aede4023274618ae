"""A local OpenAI-compatible server with canned answers, good ones and every kind of bad one."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import Counter
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

GOOD = "good"
MISBEHAVIOUR = (
    "slow",
    "429",
    "500",
    "cut_off",
    "cut_off_code",
    "empty",
    "no_block",
    "two_blocks",
    "not_json",
)

REFUSALS = {"400": "too long", "401": "no such key", "402": "no money", "500": "out of order"}
"""What a server says of a request that it does not answer, by status."""

ODD = {
    "broken_gzip": (200, b"no gzip", {"Content-Encoding": "gzip"}),
    "nested": (200, b"[" * 100_000, {}),
    "lost_redirect": (302, b"", {"Location": "http://xn--/"}),
}
"""Answers that servers and what stands before them give on bad days: status, content, headers."""


class CannedModel:
    """Answers with `answer(prompt, number)`; the n-th request behaves as the n-th item of `script` says, in turn.

    `429` may name what follows as Retry-After, and as the error's code: `429 1e10`; `usage` what the server counts: `usage {}`. JSON
    is sent as it is, in place of a completion.
    """

    def __init__(self, answer, script=(GOOD,), slow_s=1.5):
        self.answer = answer
        self.script = script
        self.slow_s = slow_s
        self.requests = []
        self.authorizations = set()
        self.given = Counter()
        self._lock = threading.Lock()

    def behaviour(self, body):
        with self._lock:
            self.requests.append(body)
            number = len(self.requests)
            kind = self.script[(number - 1) % len(self.script)]
            self.given[kind] += 1
        return number, kind


def prompt_sha256(messages):
    """The digest of the prompt that a conversation begins with."""
    return hashlib.sha256(messages[0]["content"].encode()).hexdigest()


class _Handler(BaseHTTPRequestHandler):
    """Answers one request as the script says. Subclasses carry the model."""

    model: CannedModel

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.model.authorizations.add(self.headers["Authorization"])
        number, kind = self.model.behaviour(body)
        try:
            self._behave(kind, self.model.answer(body["messages"], number))
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _behave(self, kind, answer):
        if kind == "slow":
            time.sleep(self.model.slow_s)
        if kind.startswith("429"):
            wish = kind.removeprefix("429").strip() or "0.05"
            self._send(429, {"error": {"message": "slow down", "code": wish}}, {"Retry-After": wish})
        elif kind in REFUSALS:
            self._send(int(kind), {"error": {"message": REFUSALS[kind]}})
        elif kind == "not_json":
            self._raw(200, b"<html>gateway</html>")
        elif kind in ODD:
            status, content, headers = ODD[kind]
            self._raw(status, content, headers=headers)
        elif kind.startswith("{") or kind.startswith("["):
            self._raw(200, kind.encode())
        elif kind.startswith("usage "):
            usage = json.loads(kind.removeprefix("usage "))
            self._send(200, {**completion(*shape(GOOD, answer)), "usage": usage})
        elif kind == "cut_off":
            self._raw(200, json.dumps(completion(answer)).encode()[:-40], promised=40)
        else:
            self._send(200, completion(*shape(kind, answer)))

    def _send(self, status, data, headers=()):
        self._raw(status, json.dumps(data).encode(), headers=dict(headers))

    def _raw(self, status, content, promised=0, headers=()):
        self.send_response(status)
        self.send_header("Content-Length", str(len(content) + promised))
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)
        self.close_connection = True

    def log_message(self, *args):
        """Stay quiet."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


@contextmanager
def serving(model):
    """Serve on a free port; gives the base URL."""
    server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"model": model}))
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()


def shape(kind, code):
    """Give an answer's text and finish reason: the code as this kind of answer carries it."""
    match kind:
        case "empty":
            return "", "stop"
        case "no_block":
            return "I would tile the loop and fuse the rest.", "stop"
        case "plain":
            return code, "stop"
        case "thoughts":
            draft = f"<think>\nPerhaps so:\n```python\n{code}# a draft\n```\nNo.\n</think>\n"
            return f"{draft}Here it is:\n\n```python\n{code}```\n", "stop"
        case "thoughts_without_end":
            return f"<think>\nPerhaps so:\n```python\n{code}# a draft\n```\nOr else", "length"
        case "syntax_error":
            return f"```python\n{code}def (:\n```", "stop"
        case "cut_off_code":
            return f"Here it is:\n\n```python\n{code[: len(code) // 2]}", "length"
        case "two_blocks":
            return (
                f"First the idea:\n\n```python\nprint('an idea')\n```\n\nNow all of it:\n\n```python\n{code}```\n",
                "stop",
            )
        case "odd_end":
            return f"Here it is:\n\n```python\n{code}```\n", "the\u2028end\x85\ud800"
        case _:
            return f"Here it is:\n\n```python\n{code}```\n", "stop"


def completion(text, finish_reason="stop"):
    """Give a chat completion as servers send it."""
    return {
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish_reason}
        ],
        "usage": {"prompt_tokens": 100, "completion_tokens": 10},
    }
