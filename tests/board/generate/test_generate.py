"""Sampling a model through a real local server that misbehaves in every way, killed and resumed."""

import gzip
import hashlib
import itertools
import json
import math
import signal
import subprocess
import sys
import time
import tracemalloc
from base64 import b64encode

import httpx
import pytest
from canned_model import GOOD, MISBEHAVIOUR, ODD, CannedModel, prompt_sha256, serving
from commandline import kbl, kbl_process
from kernel_evaluator.machine.extras import MissingExtraError, is_installed
from kernel_evaluator.problems.problem_set import ProblemSet
from kernel_evaluator.records.keys import KernelKey

from leaderboard.commands.generate import Waits
from leaderboard.files import store
from leaderboard.generate.extract import code_blocks, kernel_block
from leaderboard.generate.journal import Journal
from leaderboard.generate.looking import Looking
from leaderboard.generate.models import LiteLLMModel, ModelError, OpenAIModel, TokenPrice, TransientError
from leaderboard.generate.patience import Patience
from leaderboard.generate.request import GenerationRequest
from leaderboard.generate.run import ConfigError, Generation, GenerationOptions
from leaderboard.prompts import PROMPTS_TOML, PromptOptions
from leaderboard.prompts.shown import shown

KERNEL = "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x\n"


def kernel_for(messages, number):
    """A kernel that says which prompt it answers and which request it came from."""
    return f"# {prompt_sha256(messages)} {number}\n{KERNEL}"


def request(tmp_path, url, **more):
    options = {
        "run_name": "run",
        "model": "canned",
        "base_url": url,
        "runs": tmp_path,
        "level": [1],
        "subset": (1, 3),
        "workers": 4,
        "timeout": 10.0,
        "first_wait": 0.01,
        "check": False,
    }
    return GenerationRequest(**{**options, **more})


def draw(asked):
    return asked.open().draw(lambda key: None)


def generate(tmp_path, url, *more, by=kbl):
    """The command as users call it."""
    options = ("--model", "m", "--base-url", url, "--level", "1", "--runs", tmp_path)
    return by("generate", "run", *options, *more)


@pytest.mark.parametrize(
    ("answer", "codes"),
    [
        ("```python\na = 1\n```\nand\n```cpp\nint b;\n```", ["a = 1", "int b;"]),
        ("```\na = 1\n```", ["a = 1"]),
        ("```python\n```", [""]),
        ("```python a = 1```", ["a = 1"]),
        ("```python\r\na = 1\r\nb = 2\r\n```\r\n", ["a = 1\nb = 2"]),
        ("no code at all", []),
        ("", []),
    ],
)
def test_blocks_are_taken_as_kernelbench_takes_them(answer, codes):
    assert codes == [block.code for block in code_blocks(answer)]


def test_the_kernel_is_the_last_block_that_defines_modelnew():
    answer = (
        f"```python\n{KERNEL}# draft\n```\nWait.\n```python\n{KERNEL}# final\n```\nUse it:\n```bash\nls\n```"
    )
    assert kernel_block(answer).code.endswith("# final")


@pytest.mark.parametrize(
    ("before", "kernel", "after"),
    [
        ("def helper(): ...", "class Model2: ...\nModelNew = Model2", "print('done')"),
        ("def helper(): ...", "from torch.nn import ReLU as ModelNew", "print('done')"),
        ("class ModelNew: ...", "class Model2: ...\nModelNew = Model2", "print('done')"),
        ("def helper(): ...", "class ModelNew: ...", "from kernel import ModelNew\nprint(ModelNew())"),
    ],
)
def test_a_block_may_bind_modelnew_in_any_way_and_an_example_of_its_use_is_not_the_kernel(
    before, kernel, after
):
    answer = "\n".join(f"So:\n```python\n{code}\n```" for code in (before, kernel, after))
    assert kernel == kernel_block(answer).code


def test_a_kernel_is_written_byte_for_byte_whatever_its_strings_hold(tmp_path):
    cuda = 'CUDA = r"""__global__ void f() {}\x0cint b;"""\nfrom torch.utils.cpp_extension import load_inline'
    source = f'SEP = "a\u2028b"  # next\x85line\n{cuda}\n{KERNEL}'
    server = CannedModel(lambda messages, number: source)
    with serving(server) as url:
        done = generate(tmp_path, url, "--subset", "1")
    assert (0, 1) == (done.returncode, len(server.requests)), done.stderr + done.stdout
    assert source.encode() == (tmp_path / "run/level_1_problem_1_sample_0_kernel.py").read_bytes()


def test_fences_inside_a_longer_fence_are_text_and_a_cut_off_block_is_known_as_such():
    assert ["a\n```\nb"] == [block.code for block in code_blocks("````python\na\n```\nb\n````")]
    assert not kernel_block("```python\nclass ModelNew:").closed


def test_typical_answers_become_a_valid_entry_without_a_file_touched(tmp_path):
    script = (
        "good",
        "plain",
        "thoughts",
        "thoughts_without_end",
        "syntax_error",
        "cut_off_code",
        "empty",
        "no_block",
    )
    server = CannedModel(lambda messages, number: KERNEL, script)
    with serving(server) as url:
        done = generate(tmp_path, url, "--subset", "1-8", "--workers", "1", "--regenerations", "0")
    assert 1 == done.returncode
    assert "problem_4_sample_0: the answer ends before its thoughts do" in done.stdout

    entry = tmp_path / "entry.json"
    packing = ("pack", str(entry), str(tmp_path / "run"), "--display-name", "Typical")
    packed, valid = kbl(*packing), kbl("validate", entry)

    kernels = json.loads(entry.read_text())["kernels"]
    assert (0, 0) == (packed.returncode, valid.returncode), packed.stderr + valid.stdout
    assert {f"level_1_problem_{at}_sample_0" for at in (1, 2, 3, 5)} == set(kernels)
    assert {KERNEL, f"{KERNEL}def (:\n"} == set(kernels.values())
    assert 1 == valid.stdout.count("it will fail to compile")


def test_300_samples_of_a_misbehaving_server_survive_a_kill_without_one_lost_or_doubled(tmp_path):
    script = (GOOD, *MISBEHAVIOUR, GOOD, GOOD)
    server = CannedModel(kernel_for, script, slow_s=0.7)
    with serving(server) as url:
        command = [
            *(sys.executable, "-m", "leaderboard", "generate", "big", "--model", "canned", "--base-url", url),
            *("--level", "1", "--samples", "3", "--workers", "8", "--runs", str(tmp_path), "--no-check"),
            *("--timeout", "0.5", "--attempts", "30", "--first-wait", "0.01", "--regenerations", "30"),
        ]
        first = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while len(list(tmp_path.glob("big/*_kernel.py"))) < 90:
            assert first.poll() is None, "the run ended before it could be killed"
            time.sleep(0.01)
        first.send_signal(signal.SIGKILL)
        first.wait()
        before = {path.name: path.read_bytes() for path in tmp_path.glob("big/*_kernel.py")}
        second = subprocess.run(command, capture_output=True, text=True, check=False)
    after = {path.name: path.read_bytes() for path in tmp_path.glob("big/*_kernel.py")}

    assert 0 == second.returncode, second.stderr
    assert 90 <= len(before) < 300
    assert before.items() <= after.items(), "a finished sample was drawn again"
    assert {f"{KernelKey(1, p, s)}_kernel.py" for p in range(1, 101) for s in range(3)} == set(after)
    heads = [text.split(b"\n")[0].split() for text in after.values()]
    assert 300 == len({number for _, _, number in heads}), "one answer stands for two samples"
    for name, (_, sha256, _) in zip(after, heads, strict=True):
        problem = ProblemSet().load(1, int(name.split("_")[3]))
        prompt = PromptOptions(precision="fp32").render(shown(problem))
        assert hashlib.sha256(prompt.encode()).hexdigest() == sha256.decode()
    assert all(server.given[kind] for kind in script), "some kind of misbehaviour was never met"
    totals = Journal(tmp_path / "big").totals()
    assert 300 <= totals.replies <= len(server.requests)
    assert 100 * totals.replies == totals.prompt_tokens
    assert [] == [path.name for path in tmp_path.glob("big/.*") if path.suffix != ".lock"]


def test_a_second_run_draws_nothing_and_more_samples_draw_only_those(tmp_path):
    server = CannedModel(kernel_for)
    with serving(server) as url:
        assert 3 == draw(request(tmp_path, url.replace("//", "//me:secret@"))).drawn
        assert f'server_type: "{url}"' in (tmp_path / "run" / "generation_config.yaml").read_text()
        assert 0 == draw(request(tmp_path, url)).drawn
        assert 3 == draw(request(tmp_path, url, samples=2)).drawn
        assert 0 == draw(request(tmp_path, url)).drawn
    assert 6 == len(server.requests)
    said = (tmp_path / "run" / "generation_config.yaml").read_text()
    assert "num_samples: 2" in said, "what was drawn stays drawn"


def test_a_run_folder_takes_samples_of_one_set_of_options_only(tmp_path):
    with serving(CannedModel(kernel_for)) as url:
        draw(request(tmp_path, url))
        with pytest.raises(ConfigError, match=r"temperature was 0\.0, is 1\.0"):
            draw(request(tmp_path, url, temperature=1.0))


def test_what_the_model_is_sent_and_what_it_costs(tmp_path, monkeypatch):
    monkeypatch.setenv("MY_KEY", "secret")
    server = CannedModel(kernel_for)
    with serving(server) as url:
        more = {
            "api_key_env": "MY_KEY",
            "price": "3,15",
            "max_tokens": 50,
            "parameter": ["reasoning_effort=low"],
        }
        outcome = draw(request(tmp_path, url, temperature=0.5, log_prompts=True, **more))
    body = server.requests[0]
    assert ("canned", 0.5, 50, "low") == tuple(
        body[k] for k in ("model", "temperature", "max_tokens", "reasoning_effort")
    )
    assert pytest.approx(3 * TokenPrice(prompt=3, completion=15).cost_usd(100, 10)) == outcome.totals.cost_usd
    logged = (tmp_path / "run" / "level_1_problem_1_sample_0_prompt.txt").read_text()
    assert logged in [item["messages"][0]["content"] for item in server.requests]
    assert {"Bearer secret"} == server.authorizations
    assert not any("secret" in path.read_text() for path in (tmp_path / "run").iterdir() if path.is_file())


def test_a_password_in_the_address_is_sent_and_written_nowhere(tmp_path):
    server = CannedModel(kernel_for)
    with serving(server) as url:
        address = url.replace("://", "://me:secret@")
        assert 1 == draw(request(tmp_path, address, subset=(1, 1))).finished
    assert {f"Basic {b64encode(b'me:secret').decode()}"} == server.authorizations
    files = [path for path in (tmp_path / "run").iterdir() if path.is_file()]
    assert url in (tmp_path / "run" / "generation_config.yaml").read_text()
    assert not any("secret" in path.read_text() for path in files)


class Endless(httpx.SyncByteStream):
    """A body of these pieces."""

    def __init__(self, pieces):
        self._pieces = pieces

    def __iter__(self):
        return self._pieces


def test_an_answer_that_never_ends_is_given_up_at_its_deadline():
    endless = itertools.repeat(b" ")
    model = OpenAIModel(name="m", base_url="http://localhost/v1", timeout_s=0.0)
    answering = httpx.MockTransport(lambda _: httpx.Response(200, stream=Endless(endless)))
    vars(model)["_client"] = httpx.Client(transport=answering)
    with pytest.raises(TransientError, match="the answer was not complete after 0 s"):
        model.complete([{"role": "user", "content": ""}])


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("class ModelNew(:", "the code does not parse"),
        ("class Model: ...", "the code does not define ModelNew"),
        ("", "the code block is empty"),
    ],
)
def test_what_cannot_be_a_kernel_is_asked_for_again_with_what_it_lacks(code, said):
    found = Looking(backend="cuda", precision="fp32").at(f"```python\n{code}\n```")
    assert found.complaint.startswith(said)
    assert found.code == (f"{code}\n" if code else None)


def test_a_model_that_never_gives_code_is_given_up_and_asked_again_only_on_wish(tmp_path):
    server = CannedModel(kernel_for, ("no_block",))
    with serving(server) as url:
        outcome = draw(request(tmp_path, url, regenerations=2))
        assert {"the answer has no fenced code block"} == set(outcome.given_up.values())
        assert 9 == len(server.requests)
        assert 0 == draw(request(tmp_path, url, regenerations=2)).drawn
        assert 9 == len(server.requests)
        server.script = (GOOD,)
        again = draw(request(tmp_path, url, regenerations=2, retry_given_up=True))
    assert (3, {}) == (again.drawn, dict(again.given_up))


def test_of_an_answer_without_a_kernel_is_said_that_the_limit_of_tokens_ended_it(tmp_path):
    with serving(CannedModel(kernel_for, ("cut_off_code",))) as url:
        [why] = draw(request(tmp_path, url, subset=(1, 1), regenerations=0)).given_up.values()
    assert why.startswith("the answer ends inside its code block; it reached the limit of tokens: raise ")


def test_the_static_check_asks_again_and_lets_the_last_answer_stand(tmp_path):
    server = CannedModel(lambda messages, number: f"# {number}\nimport threading\n{KERNEL}")
    with serving(server) as url:
        outcome = draw(request(tmp_path, url, check=True, regenerations=2, subset=(1, 1)))
    assert (1, 3) == (outcome.finished, len(server.requests))
    assert "threading" in server.requests[1]["messages"][-1]["content"]
    assert (tmp_path / "run" / "level_1_problem_1_sample_0_kernel.py").read_text().startswith("# 3\n")


def test_a_packed_answer_is_not_unpacked(monkeypatch):
    bomb = gzip.compress(gzip.compress(b" " * 100 * 2**20))
    monkeypatch.setitem(ODD, "bomb", (200, bomb, {"Content-Encoding": "gzip, gzip"}))
    with serving(CannedModel(kernel_for, ("bomb",))) as url:
        model = OpenAIModel(name="canned", base_url=url)
        tracemalloc.start()
        try:
            with pytest.raises(TransientError, match="no chat completion"):
                model.complete([{"role": "user", "content": ""}])
            most = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert most < 50 * 2**20


def test_a_server_that_stays_down_fails_the_samples_and_a_later_run_draws_them(tmp_path):
    server = CannedModel(kernel_for, ("500",))
    with serving(server) as url:
        outcome = draw(request(tmp_path, url, attempts=2))
        assert 3 == len(outcome.failed)
        assert "HTTP 500" in next(iter(outcome.failed.values()))
        server.script = (GOOD,)
        assert 3 == draw(request(tmp_path, url)).drawn


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        *zip(ODD, ("it must be JSON in UTF-8", "it is nested too deeply", "IDNAError"), strict=True),
        ("not_json", "the answer is no chat completion: it must be JSON in UTF-8: Expecting value"),
        ("[1]", "the answer must be an object, got a list"),
        ("{}", "choices must be a list with at least one answer, got nothing"),
        ('{"error": {"message": "overloaded"}}', 'it is an error, {"message": "overloaded"}; run it again'),
        ('{"choices": []}', "choices must be a list with at least one answer, got an empty list"),
        ('{"choices": {"0": 1}}', "choices must be a list with at least one answer, got an object"),
        ('{"choices": ["x"]}', 'choices[0] must be an object, got "x"'),
        ('{"choices": [{}]}', "choices[0].message must be an object, got nothing"),
        (
            '{"choices": [{"message": {"content": 7}}]}',
            "choices[0].message.content must be a text or a list of parts, got 7",
        ),
    ],
)
def test_an_odd_answer_is_asked_for_again_and_fails_its_own_sample_alone(tmp_path, kind, said):
    server = CannedModel(kernel_for, (kind, kind, kind, GOOD))
    with serving(server) as url:
        patience = ("--attempts", "2", "--first-wait", "0.01")
        done = generate(tmp_path, url, "--subset", "1-2", "--workers", "1", "--no-check", *patience)
    assert 1 == done.returncode, done.stderr
    failed = "failed: level_1_problem_1_sample_0: no answer after 2 attempts, the last one: "
    assert [line for line in done.stdout.splitlines() if line.startswith(failed) and said in line]
    assert ["level_1_problem_2_sample_0_kernel.py"] == [p.name for p in tmp_path.glob("run/*_kernel.py")]


@pytest.mark.parametrize(
    "wish",
    ["1e10", "inf", "Fri, 31 Dec 9999 23:59:59 GMT", "Wed, 01 Jan 2020 00:00:00 +99999999999999"],
)
def test_a_server_that_wishes_for_ages_is_asked_again_as_soon_as_patience_allows(tmp_path, wish):
    problems = {(1, 1): ProblemSet().load(1, 1)}
    patience = Patience(first_s=0.01, longest_wish_s=0.02)
    with serving(CannedModel(kernel_for, (f"429 {wish}", GOOD))) as url:
        model = OpenAIModel(name="canned", base_url=url)
        options = GenerationOptions(check_kernel=False, patience=patience)
        run = Generation(request(tmp_path, url).folder, problems, model, options=options)
        waits = []
        outcome = run.draw(lambda key: None, lambda why, wait_s: waits.append((why, wait_s)))
    assert (1, 1, {}) == (outcome.finished, outcome.totals.retries, dict(outcome.failed))
    [(why, wait_s)] = waits
    assert why.startswith("HTTP 429") and 0 < wait_s <= 0.02


def test_a_long_pause_is_told_of_once():
    lines = []
    told = Waits(lines.append)
    for wait_s in (9.0, 3600.0, 60.0):
        told.tell("HTTP 429: slow\x1b[31m down", wait_s)
    assert ["waiting for 3600 s: HTTP 429: slow down"] == lines


def test_options_that_come_or_go_are_refused_and_a_folder_without_samples_takes_any(tmp_path):
    with serving(CannedModel(kernel_for)) as url:
        assert 3 == len(draw(request(tmp_path, "http://127.0.0.1:9/v1", model="typo", attempts=1)).failed)
        assert 3 == draw(request(tmp_path, url)).finished
        with pytest.raises(ConfigError, match=r"max_tokens was None, is 99"):
            draw(request(tmp_path, url, max_tokens=99))
        (tmp_path / "mine.toml").write_bytes(PROMPTS_TOML.read_bytes() + b"\n")
        with pytest.raises(ConfigError, match=r"prompts_sha256 was None, is '"):
            draw(request(tmp_path, url, prompts_file=tmp_path / "mine.toml"))
        assert 0 == draw(request(tmp_path, url)).drawn


def test_prices_are_dollars_a_million_tokens_of_prompt_and_answer_each():
    assert pytest.approx(2 * 3.0 + 1 * 15.0) == TokenPrice(prompt=3, completion=15).cost_usd(
        2_000_000, 1_000_000
    )


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        ('{"prompt_tokens": "many", "completion_tokens": 10, "cost": "dear"}', (0, 10)),
        ('{"prompt_tokens": -3, "completion_tokens": 1.5, "cost": -1}', (0, 0)),
        ('{"prompt_tokens": true, "completion_tokens": [1], "cost": true}', (0, 0)),
        ('{"prompt_tokens": 1e999, "completion_tokens": NaN, "cost": 1e999}', (0, 0)),
        ('{"prompt_tokens": null}', (0, 0)),
        ('["many"]', (0, 0)),
        ('"many"', (0, 0)),
    ],
)
def test_an_odd_count_of_tokens_costs_no_kernel_and_counts_as_none(tmp_path, usage, counted):
    with serving(CannedModel(kernel_for, (f"usage {usage}",))) as url:
        outcome = draw(request(tmp_path, url, subset=(1, 1)))
    totals = outcome.totals
    assert (1, 1, {}) == (outcome.finished, totals.replies, dict(outcome.failed))
    assert (*counted, 0) == (totals.prompt_tokens, totals.completion_tokens, totals.priced)


def test_a_count_longer_than_python_reads_costs_no_kernel(tmp_path):
    text = json.dumps({"choices": [{"message": {"content": f"```python\n{KERNEL}```"}}], "usage": {}})
    answer = text.replace('"usage": {}', f'"usage": {{"prompt_tokens": 1{"0" * 5000}}}')
    with serving(CannedModel(kernel_for, (answer,))) as url:
        outcome = draw(request(tmp_path, url, subset=(1, 1), price="3,15"))
    assert (1, 0) == (outcome.finished, outcome.totals.prompt_tokens)


def test_an_odd_finish_reason_costs_no_answer_and_no_line_of_the_journal(tmp_path):
    with serving(CannedModel(kernel_for, ("odd_end",))) as url:
        outcome = draw(request(tmp_path, url, price="3,15"))
    assert (3, 3, 300) == (outcome.finished, outcome.totals.replies, outcome.totals.prompt_tokens)
    assert pytest.approx(3 * TokenPrice(prompt=3, completion=15).cost_usd(100, 10)) == outcome.totals.cost_usd


def test_a_key_that_the_server_refuses_ends_the_run(tmp_path):
    with serving(CannedModel(kernel_for, ("401",))) as url:
        done = generate(tmp_path, url, "--subset", "1-2")
    assert (2, "") == (done.returncode, done.stdout)
    assert done.stderr.splitlines()[-1].startswith("error: HTTP 401: ") and "no such key" in done.stderr


@pytest.mark.parametrize("kind", ["402", "429 insufficient_quota"])
def test_an_account_without_money_ends_the_run_at_once(tmp_path, kind):
    server = CannedModel(kernel_for, (kind,))
    with serving(server) as url, pytest.raises(ModelError, match=f"HTTP {kind[:3]}"):
        draw(request(tmp_path, url, subset=(1, 1)))
    assert 1 == len(server.requests)


def test_a_parameter_of_null_is_left_out_and_none_replaces_what_is_asked(tmp_path):
    server = CannedModel(kernel_for)
    with serving(server) as url:
        assert 3 == draw(request(tmp_path, url, parameter=["temperature=null"])).finished
        for name, instead in (("n", "--samples"), ("messages", "--prompt"), ("api_key", "environment")):
            with pytest.raises(ValueError, match=f"--parameter {name} is none .*{instead}"):
                draw(request(tmp_path, url, parameter=[f"{name}=[]"]))
    assert {"model", "messages"} == set().union(*server.requests)


def test_a_refused_key_ends_a_run_before_its_next_sample_is_due(tmp_path):
    server = CannedModel(kernel_for, ("401",) * 9)
    with serving(server) as url:
        done = generate(tmp_path, url, "--subset", "1-3", "--interval", "60")
    assert (2, 1) == (done.returncode, len(server.requests)), done.stderr


def test_a_second_process_is_kept_out_of_a_run(tmp_path):
    server = CannedModel(kernel_for)
    with serving(server) as url, store.locked(tmp_path / "run/generation.jsonl"):
        done = generate(tmp_path, url, "--subset", "1")
    assert (2, []) == (done.returncode, server.requests), done.stdout
    assert "another process is writing it" in done.stderr


def test_no_sample_starts_before_the_interval_is_over_and_an_interruption_ends_the_wait(tmp_path):
    server = CannedModel(kernel_for)
    with serving(server) as url:
        command = ["env", "--default-signal=INT"]  # what a shell runs in the background would ignore it
        command += [sys.executable, "-m", "leaderboard", "generate", "run", "--model", "m", "--base-url", url]
        command += ["--only", "1/1,1/2", "--runs", str(tmp_path), "--no-check", "--interval", "900"]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        while not list(tmp_path.glob("run/*_kernel.py")):
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=120)[1]
    assert (130, 1) == (process.returncode, len(server.requests)), said
    assert said.splitlines()[-1].startswith("interrupted; what is finished is kept")
    assert ["level_1_problem_1_sample_0_kernel.py"] == [p.name for p in tmp_path.glob("run/*_kernel.py")]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_run_whose_server_never_answers_and_keeps_what_is_finished(tmp_path, number):
    server = CannedModel(kernel_for, (GOOD, "slow", "slow", "slow"), slow_s=600.0)
    with serving(server) as url:
        command = ["env", "--default-signal=INT"]  # what a shell runs in the background would ignore it
        command += [sys.executable, "-m", "leaderboard", "generate", "run", "--model", "m", "--base-url", url]
        command += [
            "--level",
            "1",
            "--subset",
            "1-9",
            "--workers",
            "3",
            "--runs",
            str(tmp_path),
            "--no-check",
        ]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        while len(server.requests) < 4 or not list(tmp_path.glob("run/*_kernel.py")):
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(number)
        said = process.communicate(timeout=120)[1]
    assert (128 + number, 4) == (process.returncode, len(server.requests)), said
    assert said.splitlines()[-1].startswith("interrupted; what is finished is kept")
    assert 1 == len(list(tmp_path.glob("run/*_kernel.py")))


@pytest.mark.parametrize(("server", "name"), [("google", "x"), ("", "gemini/x")])
def test_google_s_own_server_gets_the_name_without_litellm_s_prefix(tmp_path, server, name):
    canned = CannedModel(lambda messages, number: "no code")
    with serving(canned) as url:
        draw(request(tmp_path, url, server=server, model="gemini/x", subset=(1, 1), regenerations=0))
    assert {name} == {each["model"] for each in canned.requests}


def test_a_server_that_cannot_be_used_ends_the_run_at_once(tmp_path):
    with (
        serving(CannedModel(kernel_for)) as url,
        pytest.raises((ModelError, MissingExtraError), match=r"(?i)litellm"),
    ):
        request(tmp_path, url, base_url="", server="somewhere").open()
    wrong = request(tmp_path, "http://127.0.0.1:9/v1", attempts=2)
    assert 3 == len(draw(wrong).failed)


@pytest.mark.skipif(is_installed("litellm"), reason="LiteLLM knows further servers")
def test_a_server_that_is_not_known_is_named_with_those_that_are(tmp_path):
    done = generate(tmp_path, "", "--subset", "1", "--server", "nosuch", by=kbl_process)
    assert 2 == done.returncode
    assert "error: --server nosuch, which is none of those known by name (openai, anthropic, " in done.stderr


def test_a_server_that_litellm_does_not_know_either_is_named_with_those_that_are_known(tmp_path):
    pytest.importorskip("litellm", reason="LiteLLM is not installed: pip install litellm")
    done = generate(tmp_path, "", "--subset", "1", "--server", "nosuch", by=kbl_process)
    assert 2 == done.returncode
    assert "error: --server must be one of openai, anthropic, " in done.stderr and "'nosuch'" in done.stderr


@pytest.mark.parametrize(
    "url",
    ["foo", "localhost:8000/v1", "ftp://host/v1", "http://", "http:///v1", "http://[", "http://host:x/v1"],
)
def test_a_base_url_that_is_none_is_refused_before_anything_is_asked(tmp_path, url):
    done = generate(tmp_path, url, "--subset", "1")
    assert (2, []) == (done.returncode, list(tmp_path.iterdir())), done.stdout
    assert f"error: --base-url must look like http://localhost:8000/v1, got {url!r}\n" in done.stderr


def test_waits_double_and_the_server_s_wish_counts():
    patience = Patience(first_s=1.0, longest_s=10.0)
    assert 0.5 <= patience.wait_s(1, None) <= 1.0
    assert 2.0 <= patience.wait_s(3, None) <= 4.0
    assert 5.0 <= patience.wait_s(9, None) <= 10.0
    assert 30.0 == patience.wait_s(1, 30.0)
    assert 3600.0 == patience.wait_s(1, math.inf)


def test_a_journal_cut_off_by_a_kill_is_read_and_continued(tmp_path):
    journal = Journal(tmp_path)
    journal.add("given_up", KernelKey(1, 1), reason="x")
    with journal.path.open("ab") as stream:
        stream.write(b'{"event": "repl')
    journal.add("given_up", KernelKey(1, 2), reason="y")
    assert {KernelKey(1, 1): "x", KernelKey(1, 2): "y"} == journal.given_up()
    assert 3 == len(journal.path.read_text().splitlines())


def test_a_full_disk_is_said_of_the_file_that_finds_no_room(tmp_path):
    replies = tmp_path / "run" / "replies.jsonl"
    replies.parent.mkdir()
    replies.symlink_to("/dev/full")
    with serving(CannedModel(kernel_for)) as url:
        done = generate(tmp_path, url, "--subset", "1", by=kbl_process)
    said = f"error: {replies} cannot be written: No space left on device"
    assert (2, said) == (done.returncode, done.stderr.splitlines()[-1])


def test_problems_are_named_by_level_range_or_list(tmp_path):
    for level, subset, only, drawn in (
        ([2], (3, 4), "", [(2, 3), (2, 4)]),
        ([], (None, None), "1/19,3/1", [(1, 19), (3, 1)]),
        ([2, 3], (None, None), "1/19,3/1", [(3, 1)]),
    ):
        some = request(tmp_path, "http://x", level=level, subset=subset, only=only).open()
        assert drawn == [(key.level, key.problem_id) for key in some.every()]
    with pytest.raises(ValueError, match="--only 1/19: none of these is in the level"):
        request(tmp_path, "http://x", level=[2], only="1/19").open()
    with pytest.raises(ValueError, match="no problem is named"):
        request(tmp_path, "http://x", level=[], subset=(None, None)).open()
    with pytest.raises(ValueError, match="--subset 9-4 holds no problem"):
        request(tmp_path, "http://x", level=[2], subset=(9, 4)).open()
    with pytest.raises(ValueError, match="a subset is of a level"):
        request(tmp_path, "http://x", level=[], subset=(3, 4), only="1/19").open()


def test_the_command_says_what_is_wrong_in_one_line(tmp_path):
    for option, name, said in (
        ("--backend", "fortran", "backend must be one of cuda, "),
        ("--prompt", "zero", "prompt must be one of zero_shot, "),
        ("--hardware", "Z80", "hardware must be one of L40S, "),
        ("--custom-prompt", "mine", "custom prompt must be one of module_first; got 'mine'"),
    ):
        done = generate(tmp_path, "http://x", option, name)
        assert (2, True) == (done.returncode, done.stderr.startswith(f"error: {said}")), done.stderr


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--timeout", "inf"),
        ("--timeout", "nan"),
        ("--timeout", "-1"),
        ("--timeout", "1e9"),
        ("--first-wait", "nan"),
        ("--interval", "nan"),
        ("--interval", "inf"),
        ("--temperature", "nan"),
        ("--temperature", "inf"),
        ("--parameter a", "NaN"),
        ("--parameter a", '{"b": [1, 1e999]}'),
        ("a price", "nan,1"),
        ("a price", "1,-1"),
    ],
)
def test_a_number_that_is_none_or_without_end_is_refused_by_its_option(tmp_path, option, value):
    given = {"--parameter a": ["--parameter", f"a={value}"], "a price": ["--price", value]}
    server = CannedModel(kernel_for)
    with serving(server) as url:
        done = generate(tmp_path, url, "--subset", "1", *given.get(option, [option, value]))
    assert (2, []) == (done.returncode, server.requests), done.stderr
    assert option in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["../evil", "a/b", "..", ".", "", "/tmp/evil", "a\\b", "a\nb"])
def test_a_run_stays_in_the_folder_of_the_runs(tmp_path, name):
    with serving(CannedModel(kernel_for)) as url:
        options = ("--model", "m", "--only", "1/1", "--base-url", url, "--runs", tmp_path / "runs")
        done = kbl("generate", name, *options)
    assert (2, []) == (done.returncode, list(tmp_path.iterdir())), done.stderr
    assert f"error: run_name must be a plain name, without / and \\ and not .., got {name!r}" in done.stderr


def test_waits_stay_as_they_are_however_often_a_server_is_asked():
    assert 0.0 == Patience(first_s=0.0).wait_s(10_000, None)


def test_litellm_s_models_are_asked_and_its_errors_told_apart(monkeypatch):
    pytest.importorskip("litellm", reason="LiteLLM is not installed: pip install litellm")
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    messages = [{"role": "user", "content": "hello"}]
    server = CannedModel(kernel_for, (GOOD, "429", "500", "cut_off"))
    with serving(server) as url:
        model = LiteLLMModel(name="openai/gpt-4o-mini", parameters={"api_base": url}, timeout_s=20.0)
        assert "ModelNew" in model.complete(messages).text
        for _ in range(3):
            with pytest.raises(TransientError):
                model.complete(messages)
    with pytest.raises(ModelError):
        LiteLLMModel(name="nobody/knows").complete(messages)
