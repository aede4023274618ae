"""What a model is shown: our words, the worked examples, hardware facts, and other people's own prompt files."""

import ast
import json
import subprocess
import sys
import tomllib

import pytest
from kernel_evaluator.labels.static_check import validate_kernel_static
from kernel_evaluator.machine.architectures import GPU_ARCHITECTURES
from kernel_evaluator.problems.problem_set import ProblemSet

from leaderboard.prompts import EXAMPLES, PromptOptions, backends
from leaderboard.prompts.shown import shown

PROBLEM = "class Model:\n    table = {'a': {1}}  # {precision_display}\n"
MANIFEST = tomllib.loads((EXAMPLES / "manifest.toml").read_text())["examples"]


@pytest.mark.parametrize("backend", backends())
@pytest.mark.parametrize("option", ["zero_shot", "one_shot", "few_shot"])
def test_every_backend_and_option_asks_for_modelnew_and_leaves_no_hole(backend, option):
    prompt = PromptOptions(backend=backend, option=option, precision="bf16", gpu_name="H200").render(PROBLEM)
    assert "{'a': {1}}" in prompt
    assert "bfloat16" in prompt
    assert "NVIDIA H200" in prompt
    assert "ModelNew" in prompt
    for hole in ("{backend_display}", "{gpu_", "{example_", "{ref_arch_src}", "{examples_block}"):
        assert hole not in prompt


@pytest.mark.parametrize(
    "problem", list(ProblemSet()), ids=lambda problem: f"{problem.level}/{problem.problem_id}"
)
def test_a_problem_is_shown_as_its_code_and_nothing_said_about_it(problem):
    prompt = PromptOptions(option="zero_shot").render(shown(problem))
    plain = ast.parse(problem.source)
    notes = [each for node in ast.walk(plain) if (each := docstring_of(node))]
    assert notes
    for note in notes:
        assert not any(sentence in prompt for sentence in note.splitlines() if len(sentence) > 12)
    for words in ("identity", "always", "never", "all zero", "is reached", "inputs are drawn"):
        assert words not in prompt.partition("class Model")[2]
    for node in ast.walk(plain):
        if docstring_of(node):
            del node.body[0]
    assert ast.dump(plain) == ast.dump(ast.parse(shown(problem)))


def docstring_of(node):
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
    return ast.get_docstring(node, clean=False) if isinstance(node, kinds) else None


def test_problems_of_another_set_are_shown_as_they_are(tmp_path):
    (tmp_path / "level1").mkdir()
    source = '"""Theirs."""\n\n\nclass Model:\n    """Say what it does."""\n'
    (tmp_path / "level1/1_Own.py").write_text(source)
    assert source == shown(ProblemSet(tmp_path).load(1, 1))


def test_options_show_none_one_and_three_examples():
    counts = [
        PromptOptions(option=option).render(PROBLEM).count("class ModelNew(")
        for option in ("zero_shot", "one_shot", "few_shot")
    ]
    assert [0, 1, 3] == counts


def test_precision_and_hardware_are_said_only_when_asked_for():
    prompt = PromptOptions().render(PROBLEM)
    assert "32-bit" not in prompt
    assert "TFLOPS" not in prompt


@pytest.mark.parametrize("gpu", GPU_ARCHITECTURES)
def test_every_device_is_called_by_its_own_vendor(gpu):
    prompt = PromptOptions(gpu_name=gpu).render(PROBLEM)
    assert ("AMD" if gpu.startswith("MI") else "NVIDIA") + f" {gpu}" in prompt
    assert ("NVIDIA" if gpu.startswith("MI") else "AMD") not in prompt


def test_a_prompt_file_of_one_s_own_sets_words_and_order(tmp_path):
    path = tmp_path / "prompts.toml"
    path.write_text("""
[shared]
problem_statement = "Speed this up in {backend_display}."
instruction = "Answer with ModelNew."
[backends.cuda]
backend_display = "CUDA"
one_shot_new_arch = "cuda/add.py"
few_shot_examples = []
[templates.common]
arch_block = "<{ref_arch_src}>"
examples_intro = ""
example_entry_template = ""
[custom_prompts.backwards]
components = ["instruction", "arch_block", "problem_statement"]
""")
    prompt = PromptOptions(custom="backwards", prompts_toml=path).render("source")
    assert "Answer with ModelNew.\n\n<source>\n\nSpeed this up in CUDA.\n" == prompt
    (marked := tmp_path / "marked.toml").write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert prompt == PromptOptions(custom="backwards", prompts_toml=marked).render("source")
    with pytest.raises(ValueError, match="hardware"):
        PromptOptions(custom="backwards", prompts_toml=path, gpu_name="H100").render("source")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "'options' is missing"),
        (b"x = {", "Invalid initial character"),
        (b"\xff", "codec can't decode"),
        (b"options = 3", "iterable"),
        (b"[options.one_shot]\ncomponents = 5", "iterable"),
        (b'[options.two_shots]\ncomponents = ["a"]', "prompt must be one of two_shots; got 'one_shot'"),
    ],
)
def test_a_prompts_file_of_ones_own_that_is_broken_is_named(tmp_path, content, why):
    path = tmp_path / "mine.toml"
    path.write_bytes(content)
    with pytest.raises(ValueError) as told:
        PromptOptions(prompts_toml=path).render("source")
    assert str(told.value).startswith(f"{path}: ") and why in str(told.value)
    with pytest.raises(ValueError, match=r"^hardware must be one of"):
        PromptOptions(prompts_toml=path, gpu_name="H9000").render("source")


@pytest.mark.parametrize(
    "wrong", [{"backend": "fortran"}, {"option": "two_shot"}, {"gpu_name": "H9000"}, {"custom": "none_such"}]
)
def test_an_unknown_name_is_answered_with_the_known_ones(wrong):
    with pytest.raises(ValueError, match="must be one of"):
        PromptOptions(**wrong).render(PROBLEM)


def test_the_manifest_lists_every_example_file_and_no_other():
    listed = {f"{item['backend']}/{item['name']}.py" for item in MANIFEST}
    found = {
        f"{path.parent.name}/{path.name}"
        for path in EXAMPLES.glob("*/*.py")
        if path.parent.name != "reference"
    }
    assert found == listed


@pytest.mark.parametrize("item", MANIFEST, ids=lambda item: f"{item['backend']}-{item['name']}")
def test_an_example_parses_has_a_reference_and_passes_the_static_checker(item):
    source = (EXAMPLES / item["backend"] / f"{item['name']}.py").read_text()
    classes = [node.name for node in ast.parse(source).body if isinstance(node, ast.ClassDef)]
    assert "ModelNew" in classes
    assert (EXAMPLES / "reference" / f"{item['name']}.py").is_file()
    valid, errors, _ = validate_kernel_static(source, item["backend"], item.get("precision", "fp32"))
    assert (True, []) == (valid, errors)


def test_the_page_on_tools_says_which_examples_have_run(repository):
    ran = {item["backend"] for item in MANIFEST if "unverified" not in item}
    record = json.loads((repository / "benchmarks/results/prompt_examples.json").read_text("utf-8"))
    correct = {item["backend"] for item in record["examples"] if item["status"] == "correct"}
    said = " ".join((repository / "docs/tools.md").read_text("utf-8").split())
    assert ran == correct == {"cuda", "triton"}
    assert not ran & {item["backend"] for item in MANIFEST if "unverified" in item}
    assert (
        "those in CUDA and Triton were correct. The examples of all other backends have **not yet run" in said
    )


@pytest.mark.gpu
def test_the_examples_that_this_machine_can_run_are_correct(tmp_path, repository):
    out = tmp_path / "examples.json"
    command = [sys.executable, str(repository / "benchmarks/prompt_examples.py"), "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert 0 == done.returncode, done.stdout + done.stderr
    statuses = {item["status"] for item in json.loads(out.read_text())["examples"]}
    assert statuses <= {"correct", "not run"}
