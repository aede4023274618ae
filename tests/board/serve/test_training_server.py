"""What a training loop needs of the server: verdicts that are remembered, batches, own problems, limits by key."""

import contextlib
import hashlib
import time

import httpx
import pytest
from evaluating import RIGHT, SOURCE
from kernel_evaluator.problems.jobs import Settings
from kernel_evaluator.problems.problem_set import ProblemSet
from kernel_evaluator.records.rows import Status
from kernel_evaluator.timing import floor
from own_server import serving, wait_until_taken
from prometheus_client.parser import text_string_to_metric_families

from leaderboard import client as client_module
from leaderboard.client import JudgeClient, ServerError
from leaderboard.serve import MAX_BATCH, guards
from leaderboard.serve.desk import Desk, Rules
from leaderboard.serve.judgements import Judgement, Judgements, QueueFullError
from leaderboard.serve.keys import Key, Keyring, KeysFileError, keyring_of, read_keys
from leaderboard.serve.memory import MemoryFileError, VerdictMemory
from leaderboard.serve.requests import NewJudgement
from leaderboard.serve.workers import COMMAND

KERNEL = "class ModelNew: ...\n"


def figures(url):
    found = {}
    for family in text_string_to_metric_families(httpx.get(f"{url}/metrics").text):
        for sample in family.samples:
            found[sample.name, *sample.labels.values()] = sample.value
    return found


def test_a_kernel_that_was_judged_is_answered_at_once_and_so_it_is_after_a_restart(tmp_path):
    memory = tmp_path / "verdicts.sqlite"
    slow = f"# sleep 1\n# speedup 2.5\n{KERNEL}".replace(
        "# sleep 1\n# speedup 2.5", "# speedup 2.5 # sleep 1"
    )
    with serving(memory=memory) as url, JudgeClient(url) as client:
        assert 2.5 == client.judge(1, 19, slow).speedup
        assert 2.5 == client.submit(1, 19, slow).row.speedup, "the answer to the request itself"
        assert 1.0 == figures(url)["kbl_worker_starts_total",]
    with serving(memory=memory) as url, JudgeClient(url) as client:
        assert client.submit(1, 19, slow).row.is_correct
        for change in ({"trials": 3}, {"measure": False}, {"again": True}):
            assert client.submit(1, 19, slow, **change).row is None, change
        assert client.submit(1, 20, slow).row is None, "another problem"
        assert 1.0 == figures(url)["kbl_judgements_remembered_total",]
    with serving(memory=memory, place="another device") as url, JudgeClient(url) as client:
        assert client.submit(1, 19, slow).row is None


def test_what_is_our_fault_or_waits_for_a_person_is_judged_again(tmp_path):
    with serving(memory=tmp_path / "m") as url, JudgeClient(url) as client:
        for status in ("infra_error", "quarantined"):
            assert status == client.judge(1, 1, f"# status {status}\n{KERNEL}").status
            again = client.submit(1, 1, f"# status {status}\n{KERNEL}")
            assert status == client.wait(again.id, 60).status
        assert 0.0 == figures(url)["kbl_judgements_remembered_total",]


def test_the_same_kernel_sent_by_many_at_once_is_judged_once(tmp_path):
    with serving(memory=tmp_path / "m") as url, JudgeClient(url) as client:
        source = f"# until {tmp_path}/all-are-sent\n{KERNEL}"
        tickets = [client.submit(1, 1, source) for _ in range(20)]
        (tmp_path / "all-are-sent").touch()
        assert all(client.wait(ticket.id, 60).is_correct for ticket in tickets)
        assert 19.0 == figures(url)["kbl_judgements_remembered_total",]


@pytest.fixture
def judgements(tmp_path):
    return Judgements(max_queued=2, max_kept=10, memory=VerdictMemory(tmp_path / "m"))


def asked(name, **change):
    problem = ProblemSet().load(1, 19)
    return Judgement(**{"id": name, "problem": problem, "source": KERNEL, "settings": Settings(), **change})


def verdict(source):
    digest = hashlib.sha256(source.encode()).hexdigest()
    return {"row": {"status": "mismatch", "kernel_sha256": digest}, "environment": {}}


def test_a_verdict_on_what_a_cancelled_judgement_left_of_its_source_is_not_remembered(judgements):
    first, waiting = judgements.add_all([asked("first"), asked("waiting", owner="another")])
    assert judgements.take(1) == [first]
    judgements.cancel(first)
    judgements.finish(first, verdict(first.source))
    assert not waiting.is_finished
    assert not judgements.add(asked("later")).is_finished
    judgements.finish(first, verdict(KERNEL))
    assert waiting.remembered and judgements.add(asked("last")).remembered, "one on the kernel itself is"


def test_what_is_asked_for_while_its_verdict_is_noted_gets_that(judgements, monkeypatch):
    running = judgements.add(asked("running"))
    judgements.take(1)
    find = judgements._memory.find

    def find_and_finish(fingerprint):
        found = find(fingerprint)
        if not running.is_finished:
            judgements.finish(running, verdict(KERNEL))
        return found

    monkeypatch.setattr(judgements._memory, "find", find_and_finish)
    assert judgements.add(asked("meanwhile")).remembered


def test_what_others_have_waiting_counts_to_no_keys_own_bound():
    judgements = Judgements(max_queued=10, max_kept=10)
    judgements.add_all([asked(f"guest {n}", owner="guest") for n in range(5)], 9)
    judgements.add_all([asked(f"mine {n}", owner="trainer") for n in range(2)], 2)
    with pytest.raises(QueueFullError, match="2 judgements of this key wait already, it may have 2"):
        judgements.add_all([asked("more", owner="trainer")], 2)
    with pytest.raises(QueueFullError, match="7 judgements wait already"):
        judgements.add_all([asked(f"many {n}", owner="guest") for n in range(4)], 9)
    assert judgements.gauges()["queued"] == 7 and judgements.find("more", "trainer") is None


def test_what_is_to_be_judged_again_needs_room_though_a_verdict_on_the_same_is_remembered(judgements):
    judgements.finish(asked("before"), verdict(KERNEL))
    known = asked("known")
    with pytest.raises(QueueFullError):
        judgements.add_all([*(asked(f"again {n}", again=True) for n in range(3)), known])
    judgements.add_all([*(asked(f"again {n}", again=True) for n in range(2)), known])
    assert known.remembered and judgements.gauges()["queued"] == 2


def test_the_memory_is_bounded_and_what_was_used_last_stays(tmp_path):
    memory = VerdictMemory(tmp_path / "m", max_bytes=50_000)
    for number in range(400):
        memory.keep(
            f"{number}", {"row": {"status": "correct", "log": hashlib.sha512(b"%d" % number).hexdigest() * 8}}
        )
        assert memory.find("0") is not None
    assert 20 < sum(memory.find(f"{number}") is not None for number in range(400)) < 300
    assert memory.find("1") is None and memory.find("399") is not None
    memory.close()
    assert (tmp_path / "m").stat().st_size < 50_000 + 2 * 4096, "the file itself, a page or two more at once"


def test_a_verdict_costs_as_little_to_keep_however_many_there_are(tmp_path):
    memory = VerdictMemory(tmp_path / "m")
    steps = []
    memory._file.set_progress_handler(lambda: steps.append(1), 10)
    for number in range(2000):
        memory.keep(f"{number}", {"row": {"status": "correct"}})
    taken = len(steps)
    memory.keep("one more", {"row": {"status": "correct"}})
    assert len(steps) - taken < 20


def test_a_file_that_holds_no_verdicts_is_named_and_a_broken_one_costs_no_verdict(tmp_path):
    (tmp_path / "text").write_text("no database, and long enough to be read as one" * 10)
    with pytest.raises(MemoryFileError, match="text: no verdicts can be kept there"):
        VerdictMemory(tmp_path / "text")
    memory = VerdictMemory(tmp_path / "m")
    memory.close()
    memory.keep("a", {"row": {}})
    assert (memory.find("a"), memory.failures) == (None, 2)


def test_a_verdict_is_found_though_its_use_cannot_be_noted(tmp_path):
    memory = VerdictMemory(tmp_path / "m")
    memory.keep("a", {"row": {"status": "correct"}})
    memory._file.execute("PRAGMA query_only = 1")  # so that nothing can be written, as on a full disk
    assert {"row": {"status": "correct"}} == memory.find("a")
    assert 1 == memory.failures


def test_a_batch_answers_each_kernel_as_soon_as_it_is_judged(tmp_path):
    heads = ("# speedup 1.0", "# status mismatch", f"# until {tmp_path}/others-came")
    kernels = [
        {"level": 1, "problem_id": at, "source": f"{head}\n{KERNEL}"} for at, head in enumerate(heads, 1)
    ]

    def judged(url):
        return sum(n for (name, *_), n in figures(url).items() if name == "kbl_judgements_done_total")

    with serving(batch_size=1) as url, JudgeClient(url) as client:
        client.judge(1, 1, KERNEL)
        came = {}
        for ticket in client.judge_many(kernels, trials=2):
            came[ticket.row.key.problem_id] = ticket.row.status, judged(url)
            if len(came) == 2:
                (tmp_path / "others-came").touch()
        assert judged(url) == 4
    assert {at: status for at, (status, _) in came.items()} == {
        1: Status.CORRECT,
        2: Status.MISMATCH,
        3: Status.CORRECT,
    }
    assert min(count for _, count in came.values()) < 4, "the first comes before the last is judged"


def test_a_batch_is_taken_in_whole_or_not_at_all():
    good = {"level": 1, "problem_id": 1, "source": KERNEL}
    with serving(max_queued=5) as url:
        for wrong, code in (
            ([good, {**good, "problem_id": 101}], 422),
            ([good, {**good, "sorce": "x"}], 422),
            ([{**good, "id": "a"}, {**good, "id": "a"}], 422),
            ([], 422),
            ([good] * 6, 422),
        ):
            assert code == httpx.post(f"{url}/v1/batches", json={"judgements": wrong}).status_code, wrong
        assert 0.0 == figures(url)["kbl_judgements_received_total",]


def test_settings_that_come_in_turns_each_keep_a_process_ready():
    with serving() as url, JudgeClient(url) as client:
        for trials in (3, 5, 3, 5, 3):
            client.judge(1, 1, f"# {time.monotonic()}\n{KERNEL}", trials=trials)
        assert 2.0 == figures(url)["kbl_worker_starts_total",]
        client.judge(1, 1, KERNEL, trials=7)
        client.judge(1, 1, KERNEL, trials=3)
        assert 4.0 > figures(url)["kbl_worker_starts_total",] - 1


def test_what_needs_no_timing_does_not_wait_behind_what_does(tmp_path):
    with serving(batch_size=1) as url, JudgeClient(url) as client:
        first = client.submit(1, 1, f"# until {tmp_path}/all-are-sent\n{KERNEL}")
        wait_until_taken(client, first)
        timed, last = (client.submit(1, 1, f"# sleep {s}\n{KERNEL}") for s in (0.3, 600))
        fast = client.submit(1, 2, KERNEL, measure=False)
        (tmp_path / "all-are-sent").touch()
        assert client.wait(fast.id, 60).is_correct
        assert client.look(first.id).is_finished
        assert not client.look(last.id).is_finished
        client.cancel(last.id)
        assert client.wait(timed.id, 60).is_correct


@pytest.fixture
def keys(tmp_path):
    path = tmp_path / "keys.toml"
    path.write_text(
        "".join(
            f'[{name}]\nsha256 = "{hashlib.sha256(key.encode()).hexdigest()}"\n{more}\n'
            for name, key, more in (
                ("trainer", "t-key", "max_queued = 2\nown_problems = true"),
                ("guest", "g-key", "per_minute = 3"),
            )
        )
    )
    return path


@pytest.mark.parametrize("beside", ["t-key", "g-key"])
def test_what_is_written_about_a_kernel_is_shown_to_its_key_alone(tmp_path, keys, beside):
    failing = f"# status infra_error\n{KERNEL}# writes why\n"  # or what is made ready beside it does
    with (
        serving(keys=keys) as url,
        JudgeClient(url, api_key="t-key") as trainer,
        JudgeClient(url, api_key=beside) as other,
    ):
        first = trainer.submit(1, 1, f"# until {tmp_path}/all-are-sent\n{KERNEL}")
        wait_until_taken(trainer, first)
        mine, _ = trainer.submit(1, 2, failing), other.submit(1, 3, KERNEL)
        (tmp_path / "all-are-sent").touch()
        assert trainer.wait(first.id, 60).is_correct
        log = trainer.wait(mine.id, 60).failure.log
        alone = trainer.judge(1, 2, failing).failure.log
    assert ("why\n", beside == "t-key") == (alone, log == alone)
    assert ("another key's kernel" in log) == (beside == "g-key")


def test_each_key_has_its_own_limits_and_sees_its_own_judgements(keys):
    body = {"level": 1, "problem_id": 1, "source": f"# sleep 600\n{KERNEL}"}
    with serving(keys=keys, batch_size=1) as url:
        with httpx.Client(base_url=url, headers={"X-API-Key": "t-key"}) as trainer:
            mine = trainer.post("/v1/judgements", json=body).json()["id"]
            codes = [trainer.post("/v1/judgements", json=body).status_code for _ in range(4)]
            assert 429 in codes and codes.count(202) in (1, 2, 3)  # by how many are judged already
        with httpx.Client(base_url=url, headers={"X-API-Key": "g-key"}) as guest:
            assert 404 == guest.get(f"/v1/judgements/{mine}").status_code
        for scheme, code in (("Bearer", 200), ("bearer", 200), ("Basic", 401)):
            asked = {"Authorization": f"{scheme} t-key"}
            assert code == httpx.get(f"{url}/v1/judgements/{mine}", headers=asked).status_code
        with httpx.Client(base_url=url, headers={"X-API-Key": "g-key"}) as guest:
            answers = [guest.post("/v1/judgements", json=body) for _ in range(5)]
            assert [202, 202, 202, 429, 429] == [answer.status_code for answer in answers]
            assert 0 < int(answers[-1].headers["retry-after"]) <= 60
        assert 401 == httpx.post(f"{url}/v1/judgements", json=body).status_code
        assert 3.0 == figures(url)["kbl_judgements_by_key_total", "guest"]


def test_a_batch_that_can_never_fit_is_refused_for_good_and_one_that_does_not_now_costs_nothing(tmp_path):
    key = hashlib.sha256(b"key").hexdigest()
    (tmp_path / "keys.toml").write_text(f'[a]\nsha256 = "{key}"\nmax_queued = 2\nper_minute = 6\n')
    batch = [{"level": 1, "problem_id": 1, "source": f"# sleep 600 {n}\n{KERNEL}"} for n in range(3)]
    with (
        serving(keys=tmp_path / "keys.toml", batch_size=1) as url,
        httpx.Client(base_url=url, headers={"X-API-Key": "key"}) as client,
    ):
        never = client.post("/v1/batches", json={"judgements": batch})
        assert (422, True) == (never.status_code, "at most 2 judgements, got 3" in never.text)
        sent = [client.post("/v1/judgements", json=body).json()["id"] for body in batch[:2]]
        for _ in range(8):
            assert 429 == client.post("/v1/batches", json={"judgements": batch[1:]}).status_code
        for one in sent:
            client.delete(f"/v1/judgements/{one}")
        with client.stream("POST", "/v1/batches", json={"judgements": batch[1:]}) as answer:
            assert 200 == answer.status_code


@contextlib.contextmanager
def asking_with_two_a_minute(folder):
    """Ask a server with a key that may send two judgements a minute."""
    digest = hashlib.sha256(b"key").hexdigest()
    (folder / "keys.toml").write_text(f'[a]\nsha256 = "{digest}"\nper_minute = 2\n')
    with (
        serving(keys=folder / "keys.toml") as url,
        httpx.Client(base_url=url, headers={"X-API-Key": "key"}) as client,
    ):
        yield client


def test_what_is_sent_again_by_the_same_id_costs_its_key_nothing(tmp_path):
    body = {"level": 1, "problem_id": 1, "source": f"# sleep 600\n{KERNEL}"}
    with asking_with_two_a_minute(tmp_path) as client:
        codes = [
            client.post("/v1/judgements", json={**body, "id": name}).status_code
            for name in ("a", "a", "a", "a", "b", "b", "c", "a")
        ]
    assert [202] * 6 + [429, 202] == codes


def test_a_batch_with_a_taken_id_is_refused_and_costs_its_key_nothing(tmp_path):
    body = {"level": 1, "problem_id": 1, "source": f"# sleep 600\n{KERNEL}"}
    with asking_with_two_a_minute(tmp_path) as client:
        client.post("/v1/judgements", json={**body, "id": "a"})
        taken = [{**body, "id": "a", "source": KERNEL}, {**body, "id": "b"}]
        assert 409 == client.post("/v1/batches", json={"judgements": taken}).status_code
        codes = [client.post("/v1/judgements", json={**body, "id": name}).status_code for name in ("b", "c")]
    assert [202, 429] == codes


def test_what_a_key_may_send_comes_back_with_time():
    now = [0.0]
    keyring, key = Keyring({}, clock=lambda: now[0]), Key(name="a", per_minute=30)
    assert 0.0 == keyring.wait_s(key, 30)
    assert 2.0 == keyring.wait_s(key, 1)
    now[0] = 10.0
    assert (0.0, 20.0) == (keyring.wait_s(key, 5), keyring.wait_s(key, 10))
    keyring.give_back(key, 4)
    assert (0.0, 2.0) == (keyring.wait_s(key, 4), keyring.wait_s(key, 1))
    now[0] = 1000.0
    assert (0.0, 4.0) == (keyring.wait_s(key, 31), keyring.wait_s(key, 1)), (
        "no more is saved up than a minute's"
    )


def test_two_names_of_one_key_are_refused(tmp_path):
    digest = hashlib.sha256(b"secret").hexdigest()
    (tmp_path / "keys.toml").write_text("".join(f"[{name}]\nsha256 = '{digest}'\n" for name in "ab"))
    with pytest.raises(KeysFileError, match=r"\[b\] has the sha256 of \[a\]; give each a key of its own"):
        keyring_of("", tmp_path / "keys.toml", own_problems=False)
    (tmp_path / "keys.toml").write_text(f"[a]\nsha256 = '{digest}'\nmax_queued = 1\n")
    with pytest.raises(KeysFileError, match=r"\[a\] has the sha256 of \[default\]"):
        keyring_of("secret", tmp_path / "keys.toml", own_problems=False)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "names no key"),
        ("[a]\nsha256 = 'x'", r"\[a\] sha256 must be 64 of 0-9a-f"),
        ("[a]\nkey = 'x'", r"\[a\] has an unknown field key; known are max_queued"),
        ("a = 1", "a must be a table"),
        ("[default]", "is the name of the environment's key; choose another"),
        (f"[a]\nsha256 = '{'0' * 64}'\nper_minute = 0", "per_minute must be a whole number from 1 on, got 0"),
        (f"[a]\nsha256 = '{'0' * 64}'\nown_problems = 1", "own_problems must be true or false"),
        ("[a]\nmax_queued = 3", r"\[a\] sha256 must be 64 of 0-9a-f"),
        (f"[a]\nsha256 = '{'0' * 64}'\nmax_queued = true", "max_queued must be a whole number from 1 on"),
        (f"[a]\nsha256 = '{'0' * 64}'\nper_minute = '3'", "per_minute must be a whole number from 1 on"),
        ("[a", "keys.toml: "),
    ],
)
def test_a_keys_file_is_refused_with_the_field_and_the_mend(tmp_path, text, said):
    with pytest.raises(KeysFileError, match=r"keys\.toml: there is no such file"):
        read_keys(tmp_path / "keys.toml")
    (tmp_path / "keys.toml").write_text(text)
    with pytest.raises(KeysFileError, match=said):
        read_keys(tmp_path / "keys.toml")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("def f(:", "a problem must be Python"),
        ("class Model: ...", "missing: get_inputs, get_init_inputs"),
    ],
)
def test_what_is_no_problem_is_refused_with_what_it_lacks(source, said):
    with serving(own_problems=True) as url:
        answer = httpx.post(f"{url}/v1/judgements", json={"problem_source": source, "source": KERNEL})
    assert (422, True) == (answer.status_code, said in answer.text), answer.text


@pytest.mark.parametrize(("own_problems", "size", "status"), [(False, 1, 403), (True, 600_000, 413)])
def test_a_problem_is_parsed_only_where_it_is_allowed_and_not_too_large(own_problems, size, status):
    with serving(own_problems=own_problems) as url:
        body = {"problem_source": "(" * size, "source": KERNEL}
        assert status == httpx.post(f"{url}/v1/judgements", json=body).status_code


def test_a_problem_comes_by_its_number_or_by_its_source_and_the_latter_only_where_that_is_allowed():
    with serving() as url:
        for body in ({"source": KERNEL}, {"source": KERNEL, "problem_id": 1, "problem_source": SOURCE}):
            assert "one of the two" in httpx.post(f"{url}/v1/judgements", json=body).text
        body = {"source": KERNEL, "problem_source": SOURCE}
        answer = httpx.post(f"{url}/v1/judgements", json=body)
        assert (403, True) == (answer.status_code, "--own-problems" in answer.json()["detail"])


def test_a_problem_of_the_set_that_comes_as_its_source_is_judged_by_its_own_floor(monkeypatch):
    monkeypatch.setattr("torch.cuda.get_device_name", lambda: "NVIDIA H100 80GB HBM3")
    rules, key = Rules(device="cuda", problem_set=ProblemSet()), Key(name="trainer", own_problems=True)
    desk = Desk(rules, Judgements(max_queued=10, max_kept=10), Keyring({}))
    source = ProblemSet().load(2, 83).source
    known, other = desk.take_in(
        key,
        {
            (text,): NewJudgement(problem_source=text, source=KERNEL)
            for text in (source, f"{source}# another\n")
        },
    )
    evidence = floor.below(known.problem, known.settings, runtime_ms=1e-4)
    assert evidence is not None and evidence["violation"] == "FasterThanPossible"
    assert (1, 1) == (other.problem.level, other.problem.problem_id)
    assert floor.below(other.problem, other.settings, runtime_ms=1e-4) is None


def test_a_row_names_the_problem_of_the_set_whose_source_was_sent(tmp_path):
    source = ProblemSet().load(1, 19).source
    with serving(own_problems=True, memory=tmp_path / "m") as url, JudgeClient(url) as client:
        for _ in range(2):
            [ticket] = client.judge_many([{"problem_source": source, "source": KERNEL}])
            assert ticket.row is not None and "level_1_problem_19_sample_0" == str(ticket.row.key)


@pytest.mark.timeout(300)
def test_real_kernels_of_an_own_problem_are_judged_by_one_process_that_stays(tmp_path):
    wrong = RIGHT.replace("min=0", "min=0.5")
    with (
        serving(command=COMMAND, own_problems=True, memory=tmp_path / "m") as url,
        JudgeClient(url, timeout_s=120) as client,
    ):
        ask = {"problem_source": SOURCE, "measure": False, "trials": 2}
        statuses = [
            t.row.status for t in client.judge_many([{**ask, "source": RIGHT}, {**ask, "source": wrong}])
        ]
        assert {Status.CORRECT, Status.MISMATCH} == set(statuses)
        [again] = client.judge_many([{**ask, "source": RIGHT + "\n# once more"}])
        assert Status.CORRECT is again.row.status
        assert 1.0 == figures(url)["kbl_worker_starts_total",]


def test_a_kernel_whose_words_utf8_cannot_hold_costs_others_of_its_batch_no_verdict():
    half = f"# status compile_error\n# half\n{KERNEL}"
    with serving() as url, JudgeClient(url, patience_s=20) as client:
        kernels = [{"level": 1, "problem_id": 19, "source": source} for source in (half, KERNEL)]
        rows = {ticket.row.status: ticket.row for ticket in client.judge_many(kernels)}
        assert {Status.COMPILE_ERROR, Status.CORRECT} == set(rows)
        assert "half ? of a pair" == rows[Status.COMPILE_ERROR].failure.message


@pytest.mark.timeout(300)
def test_a_kernel_says_what_it_likes_and_each_answer_of_a_batch_stays_one_line():
    said = "one\u2028two\u2029three\x85four"
    raising = RIGHT.replace("return", f"raise RuntimeError({said!r})\n        return")
    with serving(command=COMMAND, own_problems=True) as url, JudgeClient(url, timeout_s=120) as client:
        ask = {"problem_source": SOURCE, "measure": False, "trials": 2}
        tickets = list(client.judge_many([{**ask, "source": raising}, {**ask, "source": RIGHT}]))
    rows = {ticket.row.status: ticket.row for ticket in tickets}
    assert {Status.CORRECT, Status.RUNTIME_ERROR} == set(rows)
    assert said in rows[Status.RUNTIME_ERROR].failure.message


def test_the_client_says_what_the_server_refuses_of_a_batch():
    with serving() as url, JudgeClient(url) as client, pytest.raises(ServerError, match="no problem 101"):
        list(client.judge_many([{"level": 1, "problem_id": 101, "source": KERNEL}]))


@pytest.mark.parametrize("odd", [{"source": "half \ud800 of a pair"}, {"timeout_s": float("nan")}])
def test_what_json_can_hold_only_escaped_is_the_servers_to_refuse(odd):
    kernel = {"level": 1, "problem_id": 1, "source": KERNEL, **odd}
    with serving() as url, JudgeClient(url) as client:
        for ask in (lambda: client.judge(**kernel), lambda: list(client.judge_many([kernel]))):
            with pytest.raises(ServerError, match="HTTP 422.*" + next(iter(odd))):
                ask()


def test_a_batch_that_the_queue_can_never_hold_is_refused_for_good_and_the_client_can_send_less():
    kernels = [{"level": 1, "problem_id": 1, "source": f"# {n}\n{KERNEL}"} for n in range(7)]
    with serving(max_queued=3) as url, JudgeClient(url) as client:
        with pytest.raises(ServerError, match=r"HTTP 422.*a batch here has at most 3 judgements, got 7"):
            list(client.judge_many(kernels))
        told = list(client.judge_many(kernels, per_request=3))
        assert 7 == len({ticket.id for ticket in told}) and all(ticket.row.is_correct for ticket in told)
        with pytest.raises(ValueError, match="per_request must be 1 or more, got 0"):
            list(client.judge_many(kernels, per_request=0))


def test_the_client_sends_no_request_larger_than_the_server_takes(monkeypatch):
    monkeypatch.setattr(guards, "MAX_BATCH_BYTES", 4000)
    monkeypatch.setattr(client_module, "MAX_BATCH_BYTES", 4000)
    kernels = [{"level": 1, "problem_id": 1, "source": f"# {n} {'ä' * 100}\n{KERNEL}"} for n in range(40)]
    with serving() as url, JudgeClient(url) as client:
        assert 40 == sum(ticket.row.is_correct for ticket in client.judge_many(kernels))


def test_the_client_takes_any_number_of_kernels(tmp_path):
    with serving(memory=tmp_path / "m", max_queued=2000) as url, JudgeClient(url) as client:
        client.judge(1, 1, KERNEL)
        kernel = {"level": 1, "problem_id": 1, "source": KERNEL}
        assert [] == list(client.judge_many([]))
        told = list(client.judge_many([kernel] * (MAX_BATCH + 1)))
    assert MAX_BATCH + 1 == len(told) and all(ticket.row.is_correct for ticket in told)
