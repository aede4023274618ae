"""Runs of a real local server become training data, and the board a release, as `datasets` loads them."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest
from commandline import kbl

pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install '.[export]'")

from canned_model import CannedModel, serving
from fake_engine import rows_of
from kernel_evaluator.problems.jobs import unmeasured_row
from kernel_evaluator.records.rows import Environment, ResultFile, Status

from leaderboard.export import tables
from leaderboard.export.release import read_release
from leaderboard.export.samples import Sample, read_samples
from leaderboard.export.thinking import Thinking
from leaderboard.export.training import conversations, preferences, trajectories
from leaderboard.files import store
from leaderboard.files.submission import kernel_sha256
from leaderboard.generate.replies import read_replies
from leaderboard.generate.request import GenerationRequest
from leaderboard.generate.turns import Turn, TurnFile

KERNEL = (
    "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x.relu()\n"
)
HEADS = ("# speedup 3.0", "# speedup 1.5", "# status mismatch", "# speedup 1.51")


def answer(messages, number):
    """Four kernels in turn, each with thoughts in front of it."""
    return f"{HEADS[(number - 1) // 2]}\n{KERNEL}"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of one turn, four samples of two problems, and the work file of its evaluation."""
    folder = tmp_path_factory.mktemp("runs")
    with serving(CannedModel(answer)) as url:
        asked = GenerationRequest(
            run_name="one",
            model="m",
            base_url=url,
            runs=folder,
            only="1/19,1/20",
            samples=4,
            check=False,
            temperature=0.7,
            parameter=["seed=7"],
            workers=1,
        )
        generation = asked.open()
        generation.draw(lambda key: None)
    rows = rows_of([_job(reply.key, reply.code) for reply in read_replies(folder / "one")])
    result = ResultFile(
        entry="one",
        submission_sha256="0" * 64,
        gpu="H200",
        sizes="full",
        profile="ranked",
        evaluator_version="0",
        started_at="2026-01-01T00:00:00Z",
        finished_at="2026-01-01T00:00:00Z",
        environments={"a": Environment(device="NVIDIA H200", gpu="H200")},
        rows=tuple(sorted((replace(row, environment="a") for row in rows), key=lambda row: row.key)),
    )
    (folder / "one.json").write_text(store.dump_result(result))
    return folder / "one", folder / "one.json"


def _job(key, code):
    from kernel_evaluator.problems.jobs import Job
    from kernel_evaluator.problems.problem_set import ProblemSet

    return Job(key=key, source=code, problem=ProblemSet().load(key.level, key.problem_id))


def loaded(folder, name, cache):
    """What `datasets` makes of a folder, offline and in a process of its own."""
    program = (
        "import datasets, json, sys\n"
        f"d = datasets.load_dataset({str(folder)!r}, {name!r}, split='train')\n"
        "print(json.dumps({'rows': list(d), 'features': sorted(d.features)}))"
    )
    environment = {**os.environ, "HF_HOME": str(cache), "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_run_keeps_every_reply_whole(run):
    replies = list(read_replies(run[0]))
    assert 8 == len(replies)
    first = replies[0]
    assert {"temperature": 0.7, "seed": 7} == dict(first.parameters)
    assert first.messages[0]["role"] == "user" and "ModelNew" in first.messages[0]["content"]
    assert first.code in first.text or first.code.strip() in first.text
    assert ("m", "stop") == (first.model, first.finish_reason)
    assert first.usage["completion_tokens"] >= 0


def test_conversations_are_of_correct_kernels_and_load_with_datasets(run, tmp_path):
    pytest.importorskip("datasets", reason="datasets is not installed")
    folder, result = run
    done = kbl("export", "conversations", folder, "--result", result, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "left out: 2 mismatch" in done.stdout
    data = loaded(tmp_path / "out", "conversations", tmp_path / "hf")
    assert 6 == len(data["rows"])
    for row in data["rows"]:
        assert ["user", "assistant"] == [message["role"] for message in row["messages"]]
        assert row["status"] == "correct" and row["reward"] > 0.5
    card = (tmp_path / "out" / "README.md").read_text()
    assert "config_name: conversations" in card and "| mismatch | 2 |" in card
    lines = (tmp_path / "out" / "data" / "conversations.jsonl").read_text().splitlines()
    assert data["rows"] == [json.loads(line) for line in lines]


def test_only_fast_ones_where_that_is_asked(run):
    data = conversations(read_samples([run[0]], [run[1]]), Thinking(), min_speedup=2.0)
    assert [3.0, 3.0] == [line["speedup"] for line in data.lines]
    assert 4 == data.left_out["not fast enough"]


def test_pairs_are_of_the_same_prompt_and_clearly_apart(run, tmp_path):
    data = preferences(read_samples([run[0]], [run[1]]), Thinking(), pairs=4)
    pairs = {(pair["problem_id"], pair["chosen_status"], pair["rejected_status"]) for pair in data.lines}
    assert {(19, "correct", "mismatch"), (20, "correct", "mismatch")} == pairs
    assert 2 == data.left_out["intervals overlap"], "1.51 and 1.5 cannot be told apart"
    assert all(pair["chosen_reward"] > pair["rejected_reward"] for pair in data.lines)


def test_every_export_says_alike_why_a_reply_is_left_out(run):
    first = read_samples([run[0]], [run[1]])[0]
    without = replace(first, row=None)
    empty = replace(without, reply=replace(first.reply, code=None))
    unsaid = replace(first, row=unmeasured_row(_job(first.reply.key, KERNEL), Status.INFRA_ERROR))
    for sample, why in ((without, "not judged"), (empty, "no kernel"), (unsaid, "infra_error")):
        for left_out in (
            conversations([sample], Thinking()).left_out,
            preferences([sample], Thinking()).left_out,
            trajectories([sample], Thinking()).left_out,
        ):
            assert {why: 1} == left_out


def test_the_turns_of_a_sample_carry_their_feedback_and_rewards(tmp_path):
    with serving(CannedModel(lambda messages, number: f"{HEADS[2 if number <= 1 else 0]}\n{KERNEL}")) as url:
        only = {"only": "1/1", "check": False, "turns": 3}
        GenerationRequest(run_name="run", model="m", base_url=url, runs=tmp_path, **only).open(rows_of).draw(
            lambda key: None
        )
    [line] = trajectories(read_samples([tmp_path / "run"], []), Thinking()).lines
    assert ["mismatch", "correct", "correct"] == [turn["status"] for turn in line["turns"]]
    assert [0.1, True] == [line["turns"][0]["reward"], line["best_reward"] > 0.6]
    assert "differs at [0, 0]" in line["turns"][1]["feedback"]


def test_a_result_that_is_named_goes_before_what_a_turn_found(run, tmp_path):
    folder, result = run
    (turns := tmp_path / "run").mkdir()
    (turns / "replies.jsonl").write_bytes((folder / "replies.jsonl").read_bytes())
    [first, *_] = read_replies(turns)
    [row] = rows_of([_job(first.key, first.code)])
    TurnFile(folder=turns, key=first.key).write([Turn(code=first.code, row=replace(row, speedup=9.0))])
    found = [conversations(read_samples([turns], results), Thinking()) for results in ([], [result])]
    assert [9.0, 3.0] == [data.lines[0]["speedup"] for data in found]


def test_the_same_kernel_is_in_one_pair_of_a_prompt_alone(run):
    samples = read_samples([run[0]], [run[1]])
    once = preferences(samples, Thinking())
    twice = preferences([*samples, *samples], Thinking())
    assert once.lines and once.lines == twice.lines
    assert {"the same kernel again": len(samples)} == dict(twice.left_out - once.left_out)


def test_runs_of_one_name_stay_apart_and_a_run_named_twice_is_one(run, tmp_path, monkeypatch):
    folder, result = run
    (other := tmp_path / "one").mkdir()
    (other / "replies.jsonl").write_bytes((folder / "replies.jsonl").read_bytes())
    (tmp_path / "link").symlink_to(other)
    monkeypatch.chdir(other)
    here = type(other)(".")
    lines = trajectories(read_samples([folder, here, tmp_path / "link"], [result]), Thinking()).lines
    assert [1] * 16 == [len(line["turns"]) for line in lines]
    assert {"one"} == {line["run"] for line in lines}
    assert 8 == len(read_samples([folder, folder / ".." / "one"], [result]))


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("level_1_problem_19_sample_0_turns.json", '{"turns": [{"code": "x"}]}', "KeyError('row')"),
        ("level_1_problem_19_sample_0_turns.json", "[]", "TypeError("),
        (
            "replies.jsonl",
            '{"key": "level_1_problem_19_sample_0", "messages": []}',
            "missing ['attempt', 'model'",
        ),
        ("replies.jsonl", '{"key": 5, "messages": []}', "expected string"),
    ],
)
def test_a_file_of_a_run_that_is_broken_is_named(run, tmp_path, name, content, why):
    for kept in run[0].glob("*.jsonl"):
        (tmp_path / kept.name).write_bytes(kept.read_bytes())
    (tmp_path / name).write_text(content)
    done = kbl("export", "trajectories", tmp_path, "--out", tmp_path / "out")
    assert 2 == done.returncode
    assert done.stderr.startswith(f"error: {tmp_path / name}: not "), done.stderr[-300:]
    assert why in done.stderr


def test_a_reply_whose_code_is_no_text_is_named(run, tmp_path):
    lines = (run[0] / "replies.jsonl").read_text().splitlines()
    (tmp_path / "replies.jsonl").write_text(json.dumps({**json.loads(lines[0]), "code": 5}))
    with pytest.raises(ValueError, match="code must be text in quotes or null, got 5"):
        list(read_replies(tmp_path))


def test_what_was_thought_before_an_earlier_answer_is_in_no_prompt(tmp_path):
    model = CannedModel(lambda messages, number: f"{KERNEL}# {number}\n", script=("thoughts",))
    with serving(model) as url:
        only = {"only": "1/19", "backend": "triton", "regenerations": 1}
        GenerationRequest(run_name="run", model="m", base_url=url, runs=tmp_path, **only).open().draw(
            lambda key: None
        )
    samples = [
        Sample(folder=tmp_path / "run", reply=reply, row=rows_of([_job(reply.key, reply.code)])[0])
        for reply in read_replies(tmp_path / "run")
    ]
    messages = conversations(samples, Thinking()).lines[-1]["messages"]
    assert ["user", "assistant", "user", "assistant"] == [message["role"] for message in messages]
    assert "Perhaps so" in str(samples[-1].reply.messages), "the model was shown what it had thought"
    assert "Perhaps so" not in str(messages)
    assert "Here it is" in messages[1]["content"]


@pytest.mark.parametrize(
    ("thoughts", "why"),
    [
        ("I clamp it at zero.", ""),
        ("x" * 2000, "thinking too long"),
        ("我把它截断在零。" * 5, "thinking in another script"),
        (f"The answer is {KERNEL * 3}", "thinking holds the whole answer"),
    ],
)
def test_thinking_is_kept_or_left_out_with_the_reason(run, thoughts, why):
    reply = replace(next(read_replies(run[0])), reasoning=thoughts, code=KERNEL * 3)
    kept, reason = Thinking(keep=True, max_characters=1500).of(reply)
    assert (why, thoughts if not why else "") == (reason, kept)
    assert ("", "") == Thinking(keep=False).of(reply)


def test_a_run_without_replies_is_said_with_its_file(tmp_path):
    (tmp_path / "old").mkdir()
    done = kbl("export", "conversations", tmp_path / "old", "--out", tmp_path / "out")
    assert (2, True) == (done.returncode, "old/replies.jsonl: no replies" in done.stderr)


def test_the_board_is_one_release_with_a_schema_and_the_same_bytes_each_time(tmp_path, repository):
    import pyarrow.parquet as pq

    arguments = ["board", "--data", repository / "data", "--submissions", repository / "submissions", "--out"]
    for name in ("a", "b"):
        assert 0 == kbl("export", *arguments, tmp_path / name).returncode
    first, second = ((tmp_path / name / "data" / "kernels.parquet") for name in ("a", "b"))
    assert first.read_bytes() == second.read_bytes()
    table = pq.read_table(first)
    assert table.num_rows > 900
    assert b"evaluator_sha256" in table.schema.metadata
    assert all(field.metadata[b"description"] for field in table.schema)
    rows = table.drop_columns(["evidence", "message"]).to_pylist()
    [row] = [
        row
        for row in rows
        if (row["gpu"], row["entry"], row["level"], row["problem_id"]) == ("H200", "founders-triton", 1, 1)
    ]
    assert {(row["gpu"], row["precision"]) for row in rows if row["entry"].startswith("pytorch-eager")} == {
        ("H200", "fp32"),
        ("H200", "bf16"),
        ("H100", "fp32"),
        ("H100", "bf16"),
    }
    recorded = store.read_result(repository / "data/results/H200/founders-triton.json")
    kept = next(each for each in recorded.rows if (each.key.level, each.key.problem_id) == (1, 1))
    assert (kept.status.value, kept.speedup) == (row["status"], row["speedup"])
    assert "class ModelNew" in row["code"]


def test_an_export_replaces_no_readme_but_its_own(tmp_path):
    card, table = (
        tables.Card(title="t", text="x", license="other"),
        tables.Table(name="n", columns={}, lines=[]),
    )
    for _ in range(2):
        tables.write(tmp_path / "own", [table], card)
    with pytest.raises(ValueError, match=r"README.md: is the card of n; give --out another folder"):
        tables.write(tmp_path / "own", [replace(table, name="other")], card)
    (tmp_path / "README.md").write_text("mine")
    with pytest.raises(ValueError, match=r"README.md: is no export's card"):
        tables.write(tmp_path, [table], card)
    assert ("mine", False) == ((tmp_path / "README.md").read_text(), (tmp_path / "data").exists())


def test_the_release_leaves_out_what_the_board_does_not_count(tmp_path, repository):
    recorded = store.read_result(repository / "data/results/H100/first-light.json")
    changed, once = [row for row in recorded.rows if row.second][:2]
    rows = tuple(replace(row, second=None) if row == once else row for row in recorded.rows)
    path = tmp_path / "data/results/H100/first-light.json"
    store.write_atomically(path, store.dump_result(replace(recorded, rows=rows)))
    said = json.loads((repository / "submissions/first-light.json").read_text("utf-8"))
    said["kernels"][str(changed.key)] += "\n# changed\n"
    store.write_atomically(tmp_path / "submissions/first-light.json", json.dumps(said))
    kernels, _ = read_release(tmp_path / "data", tmp_path / "submissions")
    assert len(kernels) == len(recorded.rows) - 2
    assert all(kernel_sha256(line["code"]) == line["kernel_sha256"] for line in kernels)
