"""The evaluation server over real HTTP: queue, limits, cancellation, dying workers; and once with real kernels."""

import contextlib
import hashlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from free_ports import free_port
from jsonschema import Draft202012Validator
from kernel_evaluator.problems.jobs import Settings
from kernel_evaluator.problems.problem_set import ProblemSet
from kernel_evaluator.records.rows import Status
from own_server import WORKER, serving, wait_until_taken

from leaderboard.client import JudgeClient, ServerError
from leaderboard.serve import process, workers
from leaderboard.serve.connections import PatientConnection
from leaderboard.serve.judgements import Judgement, Judgements
from leaderboard.serve.metrics import Metrics
from leaderboard.serve.workers import WorkerDevice

KERNEL = "class ModelNew: ...\n"


@pytest.fixture(autouse=True)
def quick_restarts(monkeypatch):
    """Each of many tests loses a worker or two, and would wait out the pause after each."""
    monkeypatch.setattr(workers, "PAUSE_S", 0.05)


def until(ready):
    """Wait for something that another process does."""
    for _ in range(3000):
        if ready():
            return
        time.sleep(0.01)
    raise AssertionError("it did not happen")


def test_each_of_many_clients_gets_the_verdict_on_its_own_kernel():
    def ask(number):
        with JudgeClient(url) as client:
            return client.judge(1, 19, f"# speedup {number}.5\n{KERNEL}")

    with serving() as url, ThreadPoolExecutor(8) as pool:
        rows = list(pool.map(ask, range(1, 25)))
    assert pytest.approx([n + 0.5 for n in range(1, 25)]) == [row.speedup for row in rows]
    assert {"level_1_problem_19_sample_0"} == {str(row.key) for row in rows}


def test_each_of_a_queue_is_judged_by_its_own_settings():
    with serving() as url, JudgeClient(url) as client:
        tickets = [client.submit(1, 1, KERNEL, trials=trials) for trials in (3, 5, 7)]
        assert [3, 5, 7] == [client.wait(ticket.id, 60).trials_asked for ticket in tickets]


def test_two_devices_judge_at_the_same_time():
    devices = [WorkerDevice(name="gpu0", gpus=(0,)), WorkerDevice(name="gpu1", gpus=(1,))]
    with serving(devices=devices, batch_size=1) as url, JudgeClient(url) as client:
        slow = client.submit(1, 1, f"# sleep 600\n{KERNEL}")
        quick = client.submit(1, 2, f"# speedup 2.0\n{KERNEL}")
        assert 2.0 == client.wait(quick.id, 60).speedup
        assert not client.look(slow.id).is_finished


def test_a_kernel_that_kills_the_worker_takes_none_of_its_batch_along(tmp_path):
    with serving() as url, JudgeClient(url) as client:
        first = client.submit(1, 1, f"# until {tmp_path}/all-are-sent\n{KERNEL}")
        wait_until_taken(client, first)
        tickets = [client.submit(1, 2, f"# speedup {n}.0\n{KERNEL}") for n in (2, 3)]
        deadly = client.submit(1, 3, f"# die\n{KERNEL}")
        deep = client.submit(1, 3, f"x = 1{'+1' * 600}\n{KERNEL}")
        tickets += [client.submit(1, 4, f"# speedup {n}.0\n{KERNEL}") for n in (4, 5)]
        (tmp_path / "all-are-sent").touch()
        assert [2.0, 3.0, 4.0, 5.0] == [client.wait(ticket.id, 120).speedup for ticket in tickets]
        lost = client.wait(deadly.id, 120)
        assert (Status.INFRA_ERROR, "WorkerLost") == (lost.status, lost.failure.name)
        unread = client.wait(deep.id, 120)
        assert (Status.COMPILE_ERROR, "NestedTooDeeply") == (unread.status, unread.failure.name)
        assert client.wait(first.id, 60).is_correct
        assert "ok" == client.health()["status"]


def test_what_a_kernel_calls_its_error_is_cut_so_that_kept_verdicts_have_bounds():
    source = f"# long name\n{KERNEL}"
    with serving() as url, JudgeClient(url) as client:
        assert 500 == len(client.judge(1, 1, source).failure.name)


@pytest.fixture
def often_switching():
    """Let threads take turns so often that they meet in the middle of what is not one step."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


def judged_by(program, **options):
    """Have a server whose worker is this Python program judge two kernels; give their rows and its health."""
    with serving(command=[sys.executable, "-c", program], **options) as url, JudgeClient(url) as client:
        tickets = [client.submit(1, problem, KERNEL) for problem in (1, 2)]
        rows = [client.wait(ticket.id, 60) for ticket in tickets]
        return rows, client.health()


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("print('{}')", "wrote '{}\\n' where a verdict was due"),
        ("print('no JSON')", "wrote 'no JSON\\n'"),
        ('print(\'{"verdicts": [{"row": {}, "environment": {}}]}\')', "where a verdict was due"),
        ("print('[' * 100000)", "where a verdict was due"),
        ("import os; os.write(1, b'\\xff\\n')", "where a verdict was due"),
        ("import os; os.write(1, b'{\"verd'); os._exit(7)", "ended with exit code 7"),
        ("import os; os.kill(os.getpid(), 9)", "died of signal 9"),
        ("pass", "ended with exit code 0"),
    ],
)
def test_whatever_a_worker_does_each_judgement_gets_a_verdict_that_says_it(program, said):
    rows, health = judged_by(program)
    for row in rows:
        assert (Status.INFRA_ERROR, "WorkerLost") == (row.status, row.failure.name)
        assert said in row.failure.message
    assert ("ok", health["devices"]) == (health["status"], health["failing"])


def test_a_device_is_told_as_failing_until_a_process_of_its_ends_well():
    with serving() as url, JudgeClient(url) as client:
        assert Status.INFRA_ERROR is client.judge(1, 3, f"# die\n{KERNEL}").status
        health = client.health()
        assert health["devices"] == health["failing"]
        assert client.judge(1, 1, KERNEL).is_correct
        until(lambda: [] == client.health()["failing"])


def test_a_worker_that_never_reads_what_it_is_asked_is_ended(monkeypatch):
    monkeypatch.setattr(workers, "STALLED_S", 0.5 - Settings().build_timeout_s)
    with serving(command=["sleep", "600"]) as url, JudgeClient(url) as client:
        row = client.judge(1, 1, KERNEL + "#" * 200_000, timeout_s=0.5)
    assert Status.INFRA_ERROR is row.status
    assert re.search(r"died of signal 9 after \d+ s of silence", row.failure.message)


def test_a_lost_judgement_carries_the_end_of_what_its_worker_wrote():
    program = "import sys; sys.stderr.write('x' * 100_000); raise RuntimeError('no driver')"
    for row in judged_by(program)[0]:
        assert row.failure.log.endswith("RuntimeError: no driver\n")
        assert len(row.failure.log) <= process.LOG_BYTES


def test_where_no_kernel_is_to_blame_the_verdict_says_what_was_written_meanwhile():
    with serving() as url, JudgeClient(url) as client:
        assert client.judge(1, 1, f"{KERNEL}# writes earlier\n").is_correct
        logs = [
            client.judge(1, 1, f"# status {status}\n{KERNEL}# writes why\n").failure.log
            for status in ("infra_error", "mismatch")
        ]
    assert ["why\n", ""] == logs


def test_a_worker_that_can_be_started_later_judges_later(tmp_path):
    command = tmp_path / "worker"
    with serving(command=[str(command)]) as url, JudgeClient(url) as client:
        lost = client.judge(1, 1, KERNEL)
        assert (Status.INFRA_ERROR, "WorkerLost") == (lost.status, lost.failure.name)
        assert f"No such file or directory: '{command}'" in lost.failure.message
        assert "kbl_worker_deaths_total 2.0\n" in httpx.get(f"{url}/metrics").text
        command.write_text(f"#!/bin/sh\nexec {' '.join(WORKER)}\n")
        command.chmod(0o755)
        assert client.judge(1, 1, KERNEL).is_correct


def test_without_a_place_for_temporary_files_judgements_end_and_the_next_are_judged(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "full"))
    with serving() as url, JudgeClient(url) as client:
        lost = client.judge(1, 1, KERNEL)
        assert (Status.INFRA_ERROR, True) == (lost.status, str(tmp_path / "full") in lost.failure.message)
        (tmp_path / "full").mkdir()
        assert client.judge(1, 1, KERNEL).is_correct


def test_a_waiting_and_a_running_judgement_can_be_cancelled():
    with serving(batch_size=1) as url, JudgeClient(url) as client:
        running = client.submit(1, 1, f"# sleep 600\n{KERNEL}")
        until(lambda: client.look(running.id).state == "running")
        waiting = client.submit(1, 1, KERNEL)
        other = client.submit(1, 1, f"# speedup 3.0\n{KERNEL}")
        assert (0, 1) == (client.look(waiting.id).position, client.look(other.id).position)
        assert "cancelled" == client.cancel(waiting.id).state
        assert "cancelled" == client.cancel(running.id).state
        assert 3.0 == client.wait(other.id, 60).speedup
        assert "done" == client.cancel(other.id).state
        with pytest.raises(ServerError, match="cancelled"):
            client.wait(waiting.id)


def test_a_judgement_cancelled_while_its_worker_starts_frees_the_device():
    with serving(batch_size=1) as url, JudgeClient(url) as client:
        for _ in range(30):
            starting = client.submit(1, 1, f"# sleep 600\n{KERNEL}")
            while "queued" == client.look(starting.id).state:
                pass
            client.cancel(starting.id)
        assert client.judge(1, 1, KERNEL).is_correct


def test_a_full_queue_says_so_and_the_client_waits_its_turn():
    with serving(batch_size=1, max_queued=1) as url, JudgeClient(url) as client:
        running = client.submit(1, 1, f"# sleep 600\n{KERNEL}")
        until(lambda: client.look(running.id).state == "running")
        client.submit(1, 1, KERNEL)
        refused = httpx.post(f"{url}/v1/judgements", json={"level": 1, "problem_id": 1, "source": KERNEL})
        assert (429, "5") == (refused.status_code, refused.headers["retry-after"])
        threading.Timer(0.5, client.cancel, (running.id,)).start()
        assert client.judge(1, 1, KERNEL).is_correct


def test_the_same_id_is_judged_once():
    with serving() as url, JudgeClient(url) as client:
        for _ in range(3):
            client.submit(1, 1, KERNEL, id="mine")
        assert client.wait("mine", 60).is_correct
        assert "kbl_judgements_received_total 1.0\n" in httpx.get(f"{url}/metrics").text


def test_an_id_sent_with_another_kernel_problem_or_setting_is_refused():
    with serving() as url, JudgeClient(url) as client:
        first = client.submit(1, 19, f"# speedup 1.5\n{KERNEL}", id="step-1")
        client.wait(first.id, 60)
        for problem, speedup, trials in ((19, 9.0, 5), (20, 1.5, 5), (19, 1.5, 7)):
            with pytest.raises(
                ServerError, match="'step-1' was sent with another kernel, problem or setting"
            ):
                client.submit(1, problem, f"# speedup {speedup}\n{KERNEL}", trials=trials, id="step-1")
        assert 1.5 == client.wait("step-1", 60).speedup


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        ({"level": 5}, 422, "level"),
        ({"problem_id": 101}, 422, "no problem 101 in level 1"),
        ({"source": ""}, 422, "source"),
        ({"source": "x" * 2000}, 413, "at most"),
        ({"timeout_s": 1e6}, 422, "at most 600"),
        ({"precision": "fp8"}, 422, "precision"),
        ({"id": "../x"}, 422, "id"),
    ],
)
def test_what_is_out_of_bounds_is_refused_with_the_bound(change, code, said):
    with serving(max_source_bytes=1000) as url:
        body = {"level": 1, "problem_id": 1, "source": KERNEL, **change}
        answer = httpx.post(f"{url}/v1/judgements", json=body)
    assert (code, True) == (answer.status_code, said in answer.text), answer.text


def test_a_request_of_no_length_or_too_great_a_one_is_refused_before_it_is_read():
    body = {"level": 1, "problem_id": 1, "source": KERNEL}
    kernels = [{**body, "source": KERNEL + "#" * 900 + str(number)} for number in range(20)]
    with serving(max_source_bytes=1000) as url:
        pieces, headers = iter([json.dumps(body).encode()]), {"Content-Type": "application/json"}
        unsaid = httpx.post(f"{url}/v1/judgements", content=pieces, headers=headers)
        large = httpx.post(f"{url}/v1/judgements", json={**body, "source": "x" * 20_000})
        several = httpx.post(f"{url}/v1/batches", json={"judgements": kernels}, timeout=60)
    assert (411, {"detail": "Content-Length is required"}) == (unsaid.status_code, unsaid.json())
    assert (413, {"detail": "a request must be at most 16096 bytes"}) == (large.status_code, large.json())
    assert (200, 20) == (several.status_code, several.text.count("\n"))


def test_a_kernel_at_its_bound_is_taken_however_json_writes_it():
    with serving(max_source_bytes=10_000) as url:
        body = {"level": 1, "problem_id": 1, "source": "\x01" * 10_000}
        answer = httpx.post(f"{url}/v1/judgements", json=body)
    assert answer.status_code == 202, answer.text


@pytest.mark.parametrize(
    ("change", "where", "said"),
    [
        ('"source": "ab\\ud800"', ["body", "source"], r"the lone surrogate '\ud800' at character 2"),
        ('"source": ""', ["body", "source"], "at least 1 character"),
        ('"timeout_s": NaN', ["body", "timeout_s"], "greater than 0"),
        ('"level": 1e400', ["body", "level"], "finite number"),
        ('"precision": "\\ud800"', ["body", "precision"], "valid string"),
        ('"id": "\\ud800"', ["body", "id"], "valid string"),
        ('"timout_s": 3', ["body", "timout_s"], "no such field; did you mean timeout_s?"),
        (
            '"reference": "class Model: ..."',
            ["body", "reference"],
            "no such field; there are level, problem_id",
        ),
        ('"\\ud800": 1', ["body"], "valid string"),
        (f'"trials": {10**400}', ["body", "trials"], ""),
    ],
)
def test_what_no_answer_can_hold_is_refused_with_where_and_what_is_wrong(change, where, said):
    fields = [
        field for field in ('"level": 1', '"problem_id": 1', '"source": "x"') if field[:7] != change[:7]
    ]
    body = f"{{{', '.join([*fields, change])}}}"
    headers = {"Content-Type": "application/json"}
    with serving() as url:
        answer = httpx.post(f"{url}/v1/judgements", content=body, headers=headers)
    assert 422 == answer.status_code, answer.text
    [told] = answer.json()["detail"]
    assert ({"type", "loc", "msg"}, where, True) == (set(told), told["loc"], said in told["msg"]), told


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "text/plain", ""])
def test_a_body_that_says_it_is_no_json_is_told_what_to_say(kind):
    body = json.dumps({"level": 1, "problem_id": 1, "source": KERNEL})
    with serving() as url:
        answer = httpx.post(f"{url}/v1/judgements", content=body, headers={"Content-Type": kind})
        right = {"Content-Type": "application/json; charset=utf-8"}
        assert 202 == httpx.post(f"{url}/v1/judgements", content=body, headers=right).status_code
    said = f"Content-Type must be application/json, got {kind!r}"
    assert (415, {"detail": said}) == (answer.status_code, answer.json())


@pytest.mark.parametrize(
    ("path", "body", "key"),
    [
        ("judgements", '{"level": 1, "level": 2, "problem_id": 1, "source": "x"}', "'level'"),
        ("judgements", '{"level": 1, "problem_id": 1, "source": "x", "\\u0073ource": "y"}', "'source'"),
        (
            "judgements",
            '{"level": 1, "problem_id": 1, "source": "x", "\\ud800": 1, "\\ud800": 2}',
            r"'\ud800'",
        ),
        ("batches", '{"judgements": [{"problem_id": 1, "source": "x", "source": "y"}]}', "'source'"),
        ("batches", '{"judgements": [], "judgements": [{"problem_id": 1, "source": "x"}]}', "'judgements'"),
    ],
)
def test_a_key_that_is_sent_twice_is_refused_as_in_a_submission(path, body, key):
    headers = {"Content-Type": "application/json"}
    with serving() as url:
        answer = httpx.post(f"{url}/v1/{path}", content=body, headers=headers)
        received = httpx.get(f"{url}/metrics").text
    told = {"type": "value_error", "loc": ["body"], "msg": f"key {key} is repeated; keep one of the two"}
    assert (422, {"detail": [told]}) == (answer.status_code, answer.json())
    assert "kbl_judgements_received_total 0.0\n" in received


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 403),
        ({"Host": "evil.example:8900"}, 403),
        ({"Host": "localhost.evil.example"}, 403),
        ({"Host": "["}, 403),
        ({"Host": ""}, 403),
        ({"Host": "localhost", "Origin": "https://evil.example"}, 403),
        ({"Host": "localhost:1", "Origin": "null"}, 403),
        ({"Host": "localhost:1", "Origin": "http://localhost:1"}, 200),
        ({"Host": "[::1]:8900"}, 200),
    ],
)
def test_without_a_key_no_page_of_another_site_reaches_the_server(headers, status):
    with serving() as url:
        assert status == httpx.get(f"{url}/v1/health", headers=headers).status_code
    with serving(api_key="secret") as url:
        assert 401 == httpx.get(f"{url}/v1/judgements/a", headers=headers).status_code, "the key decides"


@pytest.mark.timeout(120)
def test_half_sent_requests_are_closed_and_others_answered_meanwhile(monkeypatch):
    monkeypatch.setattr(PatientConnection, "request_s", 1.0)
    monkeypatch.setattr(PatientConnection, "per_address", 2000)
    pieces = [
        b"",
        b"POST /v1/judgements HTTP/1.1\r\nHost: localh",
        b"POST /v1/judgements HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{",
    ]
    with serving() as url, contextlib.ExitStack() as held:
        port = int(url.rpartition(":")[2])
        half = []
        for number in range(1500):
            half.append(held.enter_context(socket.create_connection(("127.0.0.1", port))))
            half[-1].sendall(pieces[number % len(pieces)])
        with JudgeClient(url) as client:
            assert 1.5 == client.judge(1, 1, f"# speedup 1.5\n{KERNEL}").speedup
        for each in half:
            each.settimeout(60)
            while each.recv(4096):  # an answer that says so may come first
                pass


def test_an_address_holds_only_so_many_connections(monkeypatch):
    monkeypatch.setattr(PatientConnection, "per_address", 20)
    with serving() as url, contextlib.ExitStack() as held:
        port = int(url.rpartition(":")[2])
        several = [held.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(40)]
        for each in several[20:]:
            each.settimeout(60)
            assert each.recv(1) == b""
        for each in several:
            each.close()
        assert 200 == httpx.get(f"{url}/v1/health").status_code


def test_nothing_but_health_and_metrics_is_told_without_the_key():
    with serving(api_key="secret") as url:
        with JudgeClient(url, "wrong") as stranger:
            with pytest.raises(ServerError, match="401: no API key that this server knows"):
                stranger.submit(1, 1, KERNEL)
            for method in ("GET", "DELETE"):
                assert 401 == httpx.request(method, f"{url}/v1/judgements/a").status_code, "no key at all"
            assert "ok" == stranger.health()["status"]
        with JudgeClient(url, "secret") as client:
            assert client.judge(1, 1, KERNEL).is_correct


def test_a_strangers_request_is_refused_before_it_is_read():
    head = (
        "POST /v1/batches HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: 60000000"
    )
    with serving(api_key="secret") as url, contextlib.ExitStack() as held:
        address = ("127.0.0.1", int(url.rpartition(":")[2]))
        stranger = held.enter_context(socket.create_connection(address, timeout=10))
        stranger.sendall(f"{head}\r\nX-API-Key: wrong\r\n\r\n".encode())

        assert stranger.recv(12) == b"HTTP/1.1 401"


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"judgements": [{f"field{number}": 0 for number in range(100_000)}]}, "at most 100 fields"),
        ({"judgements": [{f"field{number}": 0 for number in range(90)}] * 900}, "no such field"),
    ],
)
def test_a_request_of_nothing_but_mistakes_holds_nobody_up(body, told):
    with serving(api_key="secret") as url:
        answer = httpx.post(f"{url}/v1/batches", json=body, headers={"X-API-Key": "secret"}, timeout=60)

    assert 422 == answer.status_code
    assert told in answer.text
    assert len(answer.content) < 10_000


def test_the_process_that_runs_kernels_does_not_have_the_key(tmp_path, monkeypatch):
    monkeypatch.setenv("KBL_API_KEY", "secret")
    worker = f"env > {tmp_path}/environment; exec {' '.join(WORKER)}"
    with serving(api_key="secret", command=["sh", "-c", worker]) as url, JudgeClient(url, "secret") as client:
        assert client.judge(1, 1, KERNEL).is_correct
    names = {line.partition("=")[0] for line in (tmp_path / "environment").read_text().splitlines()}
    assert ("PATH" in names, "KBL_API_KEY" in names) == (True, False)


def test_old_verdicts_go_so_that_memory_stays_flat():
    with serving(max_kept=2) as url, JudgeClient(url) as client:
        tickets = [client.submit(1, 1, KERNEL) for _ in range(4)]
        until(lambda: 'kbl_judgements_done_total{status="correct"} 4.0' in httpx.get(f"{url}/metrics").text)
        assert "kbl_kept 2.0\n" in httpx.get(f"{url}/metrics").text
        with pytest.raises(ServerError, match="404"):
            client.look(tickets[0].id)


def test_figures_can_be_read_while_verdicts_come(often_switching):
    judgements = Judgements(max_queued=1, max_kept=1)
    figures = Metrics(judgements, None, lambda: {"alive": 1, "starts": 1, "deaths": 0})
    problem = ProblemSet().load(1, 1)

    def judge():
        for number in range(3000):
            item = judgements.add(Judgement(id=str(number), problem=problem, source="", settings=Settings()))
            judgements.take(1)
            judgements.finish(item, {"row": {"status": f"s{number}"}})

    with ThreadPoolExecutor(1) as pool:
        judging = pool.submit(judge)
        while not judging.done():
            figures.text()
    judging.result()
    assert b'kbl_judgements_done_total{status="s2999"} 1.0\n' in figures.text()


def is_valid(value, schema, document):
    """Whether a value is one of a schema that names others of its document."""
    return Draft202012Validator({**schema, "components": document["components"]}).is_valid(value)


def test_the_openapi_document_names_the_answers_that_there_are_with_their_shapes(tmp_path):
    keys = tmp_path / "keys.toml"
    digest = hashlib.sha256(b"few").hexdigest()
    keys.write_text(f'[few]\nsha256 = "{digest}"\nper_minute = 1\n')
    right = {"problem_id": 1, "source": KERNEL}
    json_text = {"Content-Type": "application/json"}
    own = {"problem_source": "class Model: ...", "source": KERNEL}
    one, many = "/v1/judgements", "/v1/batches"
    seen = {}

    with serving(api_key="k", keys=keys, memory=tmp_path / "memory", max_source_bytes=100) as url:

        def ask(method, path, key="k", route="", **request):
            headers = {"X-API-Key": key, **request.pop("headers", {})}
            answer = httpx.request(method, f"{url}{path}", headers=headers, **request)
            described = document["paths"][route or path][method]["responses"]
            assert str(answer.status_code) in described, (method, path, answer.text)
            kind, *_ = answer.headers["Content-Type"].split(";")
            schema = described[str(answer.status_code)]["content"][kind]["schema"]
            value = answer.json() if kind == "application/json" else answer.text
            assert is_valid(value, schema, document), (value, schema)
            seen.setdefault((method, route or path), set()).add(str(answer.status_code))
            return value

        document = httpx.get(f"{url}/openapi.json").json()
        judged = ask("post", one, json=right)["id"]
        for path, body in ((one, right), (many, {"judgements": [right]})):
            ask("post", path, json=body, key="stranger")
            ask("post", path, content=iter([b"{}"]), headers=json_text)
            ask("post", path, content=b"{}")
            ask("post", path, content=b"x" * 6_000_000, headers=json_text)
            for wrong in (b"", b"[", b"[" * 100_000, b'{"source": "\xff"}', b"9" * 5000, b'{"a": 1, "a": 2}'):
                ask("post", path, content=wrong, headers=json_text)
        for sent in (own, {**right, "problem_id": 999}, {**right, "timeout_s": 1e9}):
            ask("post", one, json=sent)
            ask("post", many, json={"judgements": [right, sent]})
        ask("post", many, json={"judgements": [right] * 1001})
        ask("post", many, json={"judgements": [right]})
        ask("post", one, json={**right, "id": "mine", "again": True})
        ask("post", one, json={**right, "id": "mine", "problem_id": 2})
        ask("post", many, json={"judgements": [{**right, "id": "mine", "problem_id": 2}]})
        ask("post", one, json=right)
        ask("post", one, json=right, key="few")
        ask("post", one, json=right, key="few")
        ask("post", many, json={"judgements": [right]}, key="few")
        for method in ("get", "delete"):
            for name, key in ((judged, "k"), ("none", "k"), (judged, "stranger")):
                ask(method, f"{one}/{name}", key, f"{one}/{{judgement_id}}")
        ask("get", f"{one}/{judged}?wait_s=soon", route=f"{one}/{{judgement_id}}")
        ask("get", "/v1/health")
        ask("get", "/metrics")

    told = {
        (method, path): set(operation["responses"])
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    }
    seen["delete", f"{one}/{{judgement_id}}"].add("422")  # FastAPI names it wherever there is a parameter
    elsewhere = {"403", "503"}  # from another machine where no key is needed, and without workers
    assert {route: codes - elsewhere for route, codes in told.items()} == {
        route: codes - elsewhere for route, codes in seen.items()
    }


def test_the_openapi_document_says_where_a_key_travels_where_one_is_needed():
    for key, schemes in (("k", {"Bearer": "http", "X-API-Key": "apiKey"}), ("", {})):
        with serving(api_key=key) as url:
            document = httpx.get(f"{url}/openapi.json").json()
        asked = document["paths"]["/v1/judgements"]["post"].get("security", [])
        assert [{name: []} for name in schemes] == asked
        found = document["components"].get("securitySchemes", {})
        assert schemes == {name: scheme["type"] for name, scheme in found.items()}


def test_a_request_that_the_openapi_document_allows_names_one_problem():
    with serving() as url:
        document = httpx.get(f"{url}/openapi.json").json()
        schema = {"$ref": "#/components/schemas/NewJudgement"}
        both = {"problem_id": 1, "problem_source": "x", "source": KERNEL}
        for lacks, status in (((), 422), (("problem_id", "problem_source"), 422), (("problem_source",), 202)):
            for body in (
                {name: value for name, value in both.items() if name not in lacks},
                {name: None if name in lacks else value for name, value in both.items()},
            ):
                assert status == httpx.post(f"{url}/v1/judgements", json=body).status_code
                assert (status == 202) == is_valid(body, schema, document), body


def kbl_serve(*options, key="k"):
    """The command as users call it, with what ends it."""
    command = [sys.executable, "-m", "leaderboard", "serve", "--device", "cpu", "--memory-gb", "0", *options]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "KBL_API_KEY": key}
    )


def test_the_server_is_not_open_to_the_world_without_a_key():
    done = subprocess.run(
        [sys.executable, "-m", "leaderboard", "serve", "--host", "0.0.0.0"],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin"},
    )
    assert (2, True) == (done.returncode, "KBL_API_KEY must be set" in done.stderr), done.stderr


@pytest.mark.parametrize("key", [" ", "two words", "é", "line\n"])
def test_a_key_that_no_client_can_send_is_refused(key):
    done = kbl_serve("--host", "192.0.2.1", key=key)
    said = "error: KBL_API_KEY must be of visible ASCII characters without spaces"
    assert (2, True) == (done.returncode, done.stderr.startswith(said)), done.stderr


def test_an_option_that_would_give_no_key_anything_is_refused():
    done = kbl_serve("--keys", "keys.toml", "--own-problems", "--host", "192.0.2.1", key="")
    assert (2, True) == (done.returncode, "write own_problems = true in keys.toml" in done.stderr), (
        done.stderr
    )


def test_a_port_that_is_taken_is_said_and_nothing_is_started():
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = kbl_serve("--port", str(port))
    said = f"error: port {port} is taken on 127.0.0.1; choose another with --port\n"
    assert (2, said) == (done.returncode, done.stderr)


@pytest.mark.parametrize("host", ["192.0.2.1", "no.such.host.invalid", "a" * 300])
def test_a_host_that_is_not_this_machine_is_said(host):
    done = kbl_serve("--host", host)
    said = f"error: --host must be an address of this machine, got {host}: "
    assert (2, True) == (done.returncode, done.stderr.startswith(said)), done.stderr


@contextlib.contextmanager
def command_answering(host="127.0.0.1"):
    """The command as users start it, once it answers, and its port."""
    port = free_port()
    command = [sys.executable, "-m", "leaderboard", "serve", "--device", "cpu", "--memory-gb", "0"]
    command += ["--host", host, "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        try:
            until(lambda: server.poll() is not None or answers(f"http://{host}:{port}/metrics"))
            assert server.poll() is None, server.stderr.read()
            yield server, port
        finally:
            server.terminate()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_the_command_answers_on_the_port_it_is_given(host):
    with command_answering(host) as (server, port):
        server.terminate()
        out, said = server.communicate()
    first = said.partition("\n")[0]
    assert ("", True) == (out, first.startswith("listening on http://")), said
    assert f"http://127.0.0.1:{port}" in first


@pytest.mark.timeout(300)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_server_that_is_stopped_hangs_up_on_who_waits_for_a_verdict(number):
    body = {"problem_id": 19, "source": "while True: pass\n", "measure": False, "timeout_s": 45, "id": "mine"}
    with command_answering() as (server, port), socket.create_connection(("127.0.0.1", port)) as looking:
        url = f"http://127.0.0.1:{port}"
        with httpx.stream("POST", f"{url}/v1/batches", json={"judgements": [body]}, timeout=120) as batch:
            looking.sendall(b"GET /v1/judgements/mine?wait_s=60 HTTP/1.1\r\nHost: localhost\r\n\r\n")
            until(lambda: answers(f"{url}/metrics"))
            server.send_signal(number)
            with pytest.raises(httpx.RemoteProtocolError):
                batch.read()
        assert b"" == looking.recv(1000)
        said = server.communicate()[1]
    assert (128 + number, 1) == (server.returncode, len(said.splitlines())), said


SERVER = """
from kernel_evaluator.problems.jobs import Job, Settings
from kernel_evaluator.problems.problem_set import ProblemSet
from kernel_evaluator.records.keys import KernelKey
from leaderboard.serve.process import JudgingProcess

place, problem = {{"gpus": None, "engine": "local"}}, ProblemSet().load(1, 19)
process = JudgingProcess({command!r}, place, Settings(device="cpu"), 60.0)
sources = ("# speedup 2.0", "# sleep 600")
jobs = [Job(key=KernelKey(1, 19, n), source=source, problem=problem) for n, source in enumerate(sources)]
process.ask(jobs, lambda line: print(process._process.pid, flush=True) or True, lambda: False)
"""


def test_a_server_that_is_killed_takes_along_what_judges_for_it():
    command = [sys.executable, "-c", SERVER.format(command=WORKER)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        judging = Path("/proc", server.stdout.readline().strip(), "stat")
        assert judging.exists(), "it has judged one kernel, and is on the next"
        server.kill()
    until(lambda: has_ended(judging))


def has_ended(stat):
    with contextlib.suppress(OSError):
        return ") Z " in stat.read_text()
    return True


def answers(url):
    with contextlib.suppress(httpx.TransportError):
        return 200 == httpx.get(url).status_code
    return False


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--max-timeout", "nan"),
        ("--max-timeout", "inf"),
        ("--max-timeout", "0"),
        ("--memory-gb", "nan"),
        ("--memory-gb", "inf"),
        ("--memory-gb", "1e300"),
    ],
)
def test_a_bound_that_bounds_nothing_is_refused_by_its_option(option, value):
    # On a host that no machine has, so that a server which takes the option ends too.
    done = kbl_serve("--host", "192.0.2.1", option, value)
    assert (2, True) == (done.returncode, option in done.stderr), done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.timeout(900)
def test_good_hanging_and_crashing_kernels_side_by_side(tmp_path, repository):
    out = tmp_path / "server.json"
    command = [
        sys.executable,
        str(repository / "benchmarks/server.py"),
        "--alone",
        "2",
        "--rounds",
        "1",
        "--clients",
        "4",
        "--out",
        out,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert 0 == done.returncode, done.stdout + done.stderr
    figures = json.loads(out.read_text())
    assert (4, 4, 0, 0) == tuple(figures[name] for name in ("sent", "answered", "lost", "wrong"))
    assert {"correct": 1, "mismatch": 1, "timeout": 1, "runtime_error": 1} == figures["statuses"]
