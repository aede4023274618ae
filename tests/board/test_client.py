"""The client of the evaluation server before a real local server, or a proxy, that answers oddly."""

import json
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from fake_engine import judge
from kernel_evaluator.problems.jobs import Job
from kernel_evaluator.problems.problem_set import ProblemSet
from kernel_evaluator.records.keys import KernelKey

from leaderboard.client import JudgeClient, ServerError

QUEUED = {"id": "mine", "state": "queued", "position": 0, "row": None}
ODD = {
    "DecodingError": (b"no gzip", {"Content-Encoding": "gzip"}),
    "RecursionError": (b"[" * 100_000, {}),
    "JSONDecodeError": (b"<html>gateway</html>", {}),
}
GOOD = (json.dumps(QUEUED).encode(), {})


@contextmanager
def answering(*answers):
    """Give the base URL of a server that gives these answers in turn, the last one for good."""
    left = list(answers)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            content, headers, *status = left.pop(0) if len(left) > 1 else left[0]
            self.send_response(*status or [200])
            for name, value in {"Content-Length": str(len(content)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)
            self.close_connection = headers.get("Connection") != "keep-alive"

        do_GET = do_POST

        def log_message(self, *args):
            """Stay quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_an_odd_answer_is_asked_for_again(odd):
    with answering(odd, GOOD) as url, JudgeClient(url) as client:
        assert "queued" == client.submit(1, 1, "source").state


@pytest.mark.parametrize("name", ODD)
def test_a_server_that_stays_odd_is_an_error_that_says_how(name):
    with (
        answering(ODD[name]) as url,
        JudgeClient(url, patience_s=0) as client,
        pytest.raises(ServerError, match=name),
    ):
        client.submit(1, 1, "source")


def test_a_server_that_was_started_anew_while_a_kernel_waited_gets_it_again():
    row = judge(Job(key=KernelKey(1, 1), source="", problem=ProblemSet().load(1, 1)), "0" * 64)
    done = json.dumps({**QUEUED, "state": "done", "row": row.to_json()}).encode()
    absent = (b'{"detail": "no such judgement"}', {}, 404)
    with answering(GOOD, absent, (done, {})) as url, JudgeClient(url) as client:
        assert client.judge(1, 1, "source").is_correct
    with answering(absent) as url, JudgeClient(url) as client, pytest.raises(ServerError, match="HTTP 404"):
        client.judge(1, 1, "source")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"detail": "no such key"}, "HTTP 422: no such key"),
        (
            {
                "detail": [
                    {"type": "a", "loc": ["body", "judgements", 3, "problem_id"], "msg": "there is none"},
                    {"type": "b", "loc": ["body"], "msg": "the body is too deep"},
                ]
            },
            "HTTP 422: judgements.3.problem_id: there is none; the body is too deep",
        ),
        *((odd, f"HTTP 422: {json.dumps(odd)}") for odd in ({"detail": 3}, {"detail": ["x"]}, ["detail"], 5)),
    ],
)
def test_a_refusal_is_told_in_the_servers_words_with_the_place_of_each_mistake(answer, said):
    with answering((json.dumps(answer).encode(), {}, 422)) as url, JudgeClient(url) as client:
        with pytest.raises(ServerError) as one:
            client.submit(1, 1, "source")
        with pytest.raises(ServerError) as batch:
            list(client.judge_many([{"level": 1, "problem_id": 1, "source": "source"}]))
    assert (said, said) == (str(one.value), str(batch.value))


@pytest.mark.parametrize(
    ("url", "key", "said"),
    [
        ("localhost:8900", "", "the server's URL must begin with http:// or https://, got 'localhost:8900'"),
        ("http://localhost:8900", "secret\n", "the API key must be of visible ASCII characters"),
    ],
)
def test_an_address_or_a_key_that_no_request_can_have_is_refused_at_once(url, key, said):
    with pytest.raises(ValueError, match=said):
        JudgeClient(url, key)


def test_a_batch_that_breaks_after_longer_than_patience_is_sent_again():
    first, second = (json.dumps({**QUEUED, "id": name}).encode() + b"\n" for name in ("a", "b"))
    kernels = [{"id": name, "level": 1, "problem_id": 1, "source": "source"} for name in ("a", "b")]
    came = []
    with (
        answering((first, {"Content-Length": "9999"}), (first + second, {})) as url,
        JudgeClient(url, patience_s=0.5) as client,
    ):
        for ticket in client.judge_many(kernels):
            came.append(ticket.id)
            time.sleep(0.6)
    assert came == ["a", "b"]


def test_a_batch_whose_server_is_gone_without_a_word_is_sent_again():
    first, second = (json.dumps({**QUEUED, "id": name}).encode() + b"\n" for name in ("a", "b"))
    kernels = [{"id": name, "level": 1, "problem_id": 1, "source": "source"} for name in ("a", "b")]
    silent = (first, {"Content-Length": "9999", "Connection": "keep-alive"})
    with (
        answering(silent, (first + second, {})) as url,
        JudgeClient(url, silent_s=0.2, patience_s=0) as client,
    ):
        assert ["a", "b"] == [ticket.id for ticket in client.judge_many(kernels)]


def test_a_batch_whose_connection_keeps_breaking_is_an_error_in_the_end():
    kernel = {"level": 1, "problem_id": 1, "source": "source"}
    with (
        answering((b"", {"Content-Length": "9999"})) as url,
        JudgeClient(url, patience_s=0.5) as client,
        pytest.raises(ServerError, match=r"within 0\.5 s, the last one: RemoteProtocolError"),
    ):
        list(client.judge_many([kernel]))
