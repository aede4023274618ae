"""Second looks: rows that no longer hold, counter-examples that are shown again, copies under other names."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from kernel_evaluator.problems.problem_set import ProblemSet, read_sizes
from kernel_evaluator.records.keys import KernelKey
from kernel_evaluator.records.rows import Environment, Failure, ResultFile, Row, Status, Timing
from typer.testing import CliRunner

from leaderboard.cli import app
from leaderboard.files.store import dump_result
from leaderboard.files.submission import kernel_sha256
from leaderboard.runs.audit import choose
from leaderboard.runs.copies import copies, structure_sha256
from leaderboard.stages.agreement import EQUIVALENT, difference

CORPUS = Path(__file__).resolve().parents[2] / "redteam"
RELU = (CORPUS / "twin_relu.py").read_text("utf-8")
SKIPPED = (CORPUS / "e43_skipped_relu.py").read_text("utf-8")
KEYS = [KernelKey(1, 19, sample) for sample in range(2)]
PROBLEM = ProblemSet().load(1, 19).reduced(read_sizes())
EXAMPLE = {"distribution": "signed", "seed": 11, "call_seed": 5, "weight_seed": 7, "weights": "plain"}
EXAMPLE |= {"place": "device", "output": 0, "index": 3, "expected": "0.0", "found": "-0.5"}


def timed(key, speedup, source=RELU, status=Status.CORRECT, **facts):
    timing = Timing(median=1.0, mean=1.0, std=0.0, min=1.0, max=1.0, n=6)
    return Row(
        key=key,
        status=status,
        kernel_sha256=kernel_sha256(source),
        problem_sha256=PROBLEM.sha256,
        evaluator_sha256="e" * 64,
        environment="here",
        runtime_ms=timing,
        reference_ms=timing,
        speedup=speedup,
        speedup_ci95=(0.98 * speedup, 1.02 * speedup),
        **facts,
    )


def fragile(key, source=SKIPPED):
    return Row(
        key=key,
        status=Status.FRAGILE,
        kernel_sha256=kernel_sha256(source),
        problem_sha256=PROBLEM.sha256,
        evaluator_sha256="e" * 64,
        environment="here",
        failure=Failure(name="WrongOutput", message="output 0 is wrong", log="what it printed\n"),
        evidence={"counter_example": EXAMPLE},
    )


@pytest.fixture
def recorded(tmp_path):
    """A result of two rows, a right kernel and a wrong one, and its submission."""
    kernels = {str(KEYS[0]): RELU, str(KEYS[1]): SKIPPED}
    submission = tmp_path / "entry.json"
    submission.write_text(json.dumps({"metadata": {"display_name": "x"}, "kernels": kernels}), "utf-8")
    result = ResultFile(
        entry="entry",
        submission_sha256="s" * 64,
        gpu="CPU",
        sizes="reduced",
        profile="ranked",
        evaluator_version="0",
        started_at="2026-01-01T00:00:00Z",
        finished_at="2026-01-01T00:00:00Z",
        environments={"here": Environment(device="CPU", gpu="CPU")},
        rows=(timed(KEYS[0], 1.0), fragile(KEYS[1])),
    )
    path = tmp_path / "result.json"
    path.write_text(dump_result(result), "utf-8")
    return path, submission


def run(command, recorded, *arguments):
    path, submission = recorded
    given = [command, str(path), *arguments, "--submission", str(submission), "--device", "cpu"]
    return CliRunner().invoke(app, given)


def test_rows_agree_where_they_are_equal_beyond_doubt():
    before = timed(KEYS[0], 1.5)
    assert difference(before, timed(KEYS[0], 1.54)) == ""
    assert "speedup was 1.500 (1.43-1.57), is 1.000" in difference(before, timed(KEYS[0], 1.0))
    assert "was correct, is fragile" in difference(before, fragile(KEYS[0], RELU))
    assert "source" in difference(before, timed(KEYS[0], 1.5, SKIPPED))
    assert "problem is not the one" in difference(before, replace(before, problem_sha256="other"))
    untimed = replace(before, speedup=None, speedup_ci95=None)
    assert difference(untimed, untimed) == difference(fragile(KEYS[1]), fragile(KEYS[1])) == ""


def test_a_wide_interval_agrees_with_nothing():
    wide = replace(timed(KEYS[0], 1000.0), speedup_ci95=(2.0, 2000.0))
    assert "too wide to agree" in difference(wide, timed(KEYS[0], 2.9))
    assert "too wide to agree" in difference(wide, wide)


CUDA = """
import torch
from torch.utils.cpp_extension import load_inline

source = '''
#include <torch/extension.h>
// doubles
__global__ void twice(float* x, int n) {{
    int i = threadIdx.x;
    if (i < n) x[i] = {factor} * x[i];
}}
'''
module = load_inline(name="m", cpp_sources="", cuda_sources=source, functions=["twice"])


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return module.twice(x)
"""
ORIGINAL = CUDA.format(factor="2.0f")


@pytest.mark.parametrize(
    "change",
    [
        lambda s: s.replace("int i =", "int   i  ="),
        lambda s: s.replace("// doubles", "/* made by us\n on two lines */"),
        lambda s: s.replace("if (i < n)", "if (i < n) /* inside */"),
        lambda s: s.replace("twice", "doubled"),
        lambda s: s.replace("float* x, int n", "float *values, int n").replace("x[i]", "values[i]"),
        lambda s: s.replace("import torch\n", "import math\nimport torch\n", 1),
        lambda s: s.replace("source =", "_ = 0\nsource =", 1),
        lambda s: s.replace("        return", "        pass\n        return"),
    ],
)
def test_what_is_not_compiled_makes_no_other_kernel(change):
    changed = change(ORIGINAL)
    assert changed != ORIGINAL
    assert structure_sha256(changed) == structure_sha256(ORIGINAL)


def test_another_number_in_cuda_is_another_kernel():
    assert structure_sha256(CUDA.format(factor="3.0f")) != structure_sha256(ORIGINAL)
    assert structure_sha256(ORIGINAL.replace("i < n", "i <= n")) != structure_sha256(ORIGINAL)


def test_the_rows_that_most_need_a_second_look_are_those_in_quarantine_and_the_fastest(recorded):
    waiting = timed(KEYS[1], 9.0, status=Status.QUARANTINED, evidence={"violation": "ClocksDisagree"})
    rows = (timed(KEYS[0], 2.0), waiting, timed(KernelKey(1, 20), 3.0))
    facts = dict.fromkeys(("submission_sha256", "evaluator_version", "started_at", "finished_at"), "")
    here = {"here": Environment(device="CPU", gpu="CPU")}
    result = ResultFile(
        entry="e", gpu="CPU", sizes="reduced", profile="ranked", environments=here, rows=rows, **facts
    )
    assert choose(result, top=1) == [KEYS[1], KernelKey(1, 20)]


def test_a_counter_example_is_shown_again_with_the_values_of_both_sides(recorded):
    shown = run("replay", recorded, str(KEYS[1]))
    assert shown.exit_code == 0, shown.output
    assert "again at index 3: expected" in shown.output
    assert "| what it printed" in shown.output


def test_a_replay_of_a_kernel_that_is_right_after_all_ends_with_1(recorded):
    path, _ = recorded
    data = json.loads(path.read_text())
    held = {"status": "fragile", "evidence": {"counter_example": EXAMPLE}}
    data["rows"][0] = {**data["rows"][1], **held, "key": str(KEYS[0]), "kernel_sha256": kernel_sha256(RELU)}
    path.write_text(json.dumps(data))
    shown = run("replay", recorded, str(KEYS[0]))
    assert (1, True) == (shown.exit_code, "again at index 3: expected" in shown.output), shown.output


def test_no_counter_example_is_run_on_another_kernel_or_another_problem(recorded, tmp_path):
    own = tmp_path / "own problems/level1/19_Own.py"
    own.parent.mkdir(parents=True)
    own.write_text(PROBLEM.source.replace("relu", "tanh"))
    other = run("replay", recorded, str(KEYS[1]), "--problems", str(own.parents[1]))
    _, entry = recorded
    entry.write_text(entry.read_text().replace("import torch", "import torch  # mended"))
    mended = run("replay", recorded, str(KEYS[1]))
    for shown, what in ((other, "the problem"), (mended, "the submission's source")):
        assert (2, False) == (shown.exit_code, "again at index" in shown.output)
        assert f"was not run: {what} is not the one that was judged" in shown.stderr


def test_a_row_without_a_counter_example_cannot_be_replayed(recorded):
    shown = run("replay", recorded, str(KEYS[0]))
    assert shown.exit_code == 1 and "no counter-example" in shown.output


@pytest.mark.parametrize(("sample", "code"), [(0, 1), (1, 2)])
def test_a_row_of_another_gpu_is_shown_and_only_its_counter_example_needs_that_gpu(recorded, sample, code):
    path, _ = recorded
    path.write_text(path.read_text().replace('"CPU"', '"H200"'))
    shown = run("replay", recorded, str(KEYS[sample]))
    assert (code, True) == (shown.exit_code, f"{KEYS[sample]} is " in shown.output), shown.output
    for said in ("| what it printed", '"counter_example": {', "error: the counter-example was not run: "):
        assert (said in shown.output) is (sample == 1), shown.output
    assert ("of H200, and cpu is CPU here: run this on that device" in shown.output) is (sample == 1)


def test_a_kernel_without_a_row_is_told_before_anything_else_is_read(recorded):
    path, _ = recorded
    key = "level_1_problem_19_sample_7"
    done = run("replay", (path, path.with_name("none.json")), key)
    assert (2, f"error: the result has no row for {key}\n") == (done.exit_code, done.stderr)


def test_an_audit_says_which_rows_hold_in_a_fresh_process_with_new_seeds(recorded, tmp_path):
    out = tmp_path / "audit.json"
    audited = run("audit", recorded, "--keys", f"{KEYS[1]},{KEYS[1]}", "--out", str(out))
    assert f"{KEYS[1]}: holds" in audited.output, audited.output
    assert audited.exit_code == 0
    (found,) = json.loads(out.read_text())
    before, after = Row.from_json(found["before"]), Row.from_json(found["after"])
    assert (str(KEYS[1]), "", fragile(KEYS[1])) == (found["key"], found["differs"], before)
    assert after.evidence and after.evidence["counter_example"] != EXAMPLE


def test_an_audit_writes_what_it_finds_as_it_goes_on_and_begins_with_nothing(recorded, tmp_path):
    out = tmp_path / "audit.json"
    out.write_text("of an earlier audit")
    assert run("audit", recorded, "--top", "0", "--out", str(out)).exit_code == 0
    assert json.loads(out.read_text()) == []
    nowhere = run("audit", recorded, "--out", str(out / "audit.json"))
    assert (2, True) == (nowhere.exit_code, "error: " in nowhere.output)


def test_a_row_that_does_not_hold_ends_the_audit_with_1(recorded):
    path, _ = recorded
    data = json.loads(path.read_text())
    data["rows"][1] |= {"status": "correct", "failure": None, "evidence": None}
    path.write_text(json.dumps(data))
    audited = run("audit", recorded, "--keys", str(KEYS[1]))
    assert (1, True) == (audited.exit_code, "0 of 1 rows hold" in audited.output), audited.output


def test_an_audit_of_a_kernel_without_a_row_does_not_start(recorded):
    audited = run("audit", recorded, "--keys", "level_1_problem_19_sample_7")
    assert audited.exit_code == 2


def test_another_entrys_file_and_another_gpus_result_are_refused_before_anything_runs(recorded, tmp_path):
    path, submission = recorded
    other = tmp_path / "other.json"
    other.write_bytes(submission.read_bytes())
    refused = run("audit", (path, other))
    assert (refused.exit_code, "--submission must be 'entry'" in refused.output) == (2, True)
    path.write_text(path.read_text().replace('"CPU"', '"H200"'))
    refused = run("audit", recorded)
    assert (refused.exit_code, "the result is of H200" in refused.output) == (2, True)


def test_a_submission_that_lies_elsewhere_is_asked_for(recorded, tmp_path, monkeypatch):
    path, _ = recorded
    monkeypatch.chdir(tmp_path)
    for verb in (["audit", path], ["replay", path, KEYS[1]]):
        said = CliRunner().invoke(app, list(map(str, verb)))
        assert (2, True) == (said.exit_code, "with --submission" in said.output), said.output


def test_a_copy_under_other_names_is_told_and_another_kernel_is_not():
    original = (CORPUS / "twin_cumprod.py").read_text("utf-8")
    copy = (CORPUS / "e86_copy.py").read_text("utf-8")
    other = (CORPUS / "e42_truncated.py").read_text("utf-8")
    assert structure_sha256(original) == structure_sha256(copy) != structure_sha256(other)
    key = KernelKey(1, 90)
    found = copies([("first", key, original), ("second", key, copy), ("third", key, other)])
    assert found == [[("first", key), ("second", key)]]
    assert copies([("first", key, original), ("first", KernelKey(1, 90, 1), copy)]) == []


@pytest.mark.parametrize(
    "source",
    [
        "@triton.jit\ndef k(x, {0}): ...\n\ndef forward(x):\n    k[(1,)](x, {0}=64)\n",
        "async def {0}(x): ...\n",
        "try: ...\nexcept ValueError as {0}:\n    raise {0}\n",
        "{0} = 1\n\ndef f():\n    global {0}\n    {0} = 2\n",
    ],
)
def test_whatever_a_source_names_may_have_another_name_in_a_copy(source):
    assert structure_sha256(source.format("BLOCK")) == structure_sha256(source.format("TILE"))


@pytest.mark.parametrize("opened", ["/* ", '\\" ', "\\' "])
def test_what_is_opened_again_and_again_is_read_at_once(opened):
    # A way that begins anew at each sign would outlast the test's own limit many times over.
    text = "#include <x>\n{} {{;(" + opened * 600_000
    one, other = (f"code = {text.format(name)!r}\nuse(code)\n" for name in "ab")

    assert structure_sha256(one) != structure_sha256(other)


def test_keywords_of_libraries_are_no_names_of_the_sources_own():
    one, other = "dim = 1\nx.sum({}=dim)\n", "dim = 1\ntorch.sum(x, {}=dim)\n"
    assert structure_sha256(one.format("dim")) != structure_sha256(one.format("axis"))
    assert structure_sha256(other.format("dim")) != structure_sha256(other.format("axis"))


def test_what_a_variable_is_called_like_does_not_make_a_method_one_of_the_sources_own():
    source = "def f(x):\n    {0} = x.{0}(1, keepdim=True)\n    return {0}\n"
    assert structure_sha256(source.format("sum")) != structure_sha256(source.format("mean"))


@pytest.mark.parametrize("source", ["def (", "N = " + "1 + " * 3000 + "1"])
def test_a_source_that_does_not_parse_or_is_too_deep_has_a_digest_all_the_same(source):
    assert structure_sha256(source) == structure_sha256(source) != structure_sha256(source + "[")


def test_the_command_lists_what_two_entries_share(tmp_path):
    original = (CORPUS / "twin_cumprod.py").read_text("utf-8")
    copy = (CORPUS / "e86_copy.py").read_text("utf-8")
    for name, source in (("first", original), ("second", copy), ("third", RELU)):
        entry = {"metadata": {"display_name": name}, "kernels": {"level_1_problem_90_sample_0": source}}
        (tmp_path / f"{name}.json").write_text(json.dumps(entry), "utf-8")
    listed = CliRunner().invoke(app, ["copies", "--submissions", str(tmp_path)])
    assert listed.exit_code == 1
    assert listed.output.split() == [
        "first",
        "level_1_problem_90_sample_0,",
        "second",
        "level_1_problem_90_sample_0",
    ]


def test_the_page_on_trust_says_by_what_rule_a_row_is_confirmed():
    said = " ".join((CORPUS.parents[1] / "docs" / "trust.md").read_text("utf-8").split())
    rule = f"differ by less than {EQUIVALENT:.0%}".replace("%", " %")
    assert said.count(rule) == 2
    assert "published interval meets that of the new judging" not in said
