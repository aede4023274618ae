"""The problem set against the published numbers, and the check itself against problems that are wrong."""

import json
import shutil
import subprocess
import sys

import pytest
from kernel_evaluator.problems.problem_set import SET_VERSION, ProblemSet, read_sizes
from kernel_evaluator.proofs.check import fingerprint_check, read_fingerprints, read_proven, twin_check
from kernel_evaluator.records.keys import PROBLEM_COUNTS
from kernel_evaluator.records.places import PROBLEM_SET
from typer.testing import CliRunner

from leaderboard.cli import app

STRATIFIED = [
    *("1/1", "1/5", "1/12", "1/14", "1/23", "1/41", "1/51", "1/63", "1/78", "1/90", "1/92", "1/93", "1/95"),
    *("1/97", "1/98", "1/100", "2/1", "2/9", "2/28", "2/46", "2/66", "2/73", "2/83", "2/100", "3/1", "3/4"),
    *("3/24", "3/31", "3/33", "3/35", "3/36", "3/41", "3/43", "3/48", "3/50"),
]
"""Integer, boolean and scalar inputs, scalar outputs, several inputs, dropout, state, and recurrence."""


@pytest.mark.parametrize("place", STRATIFIED)
def test_a_problem_agrees_with_its_fingerprint(place):
    problem = ProblemSet().load(*map(int, place.split("/")))
    assert fingerprint_check(read_sizes())(problem).mistakes == ()


def test_every_level_is_complete_and_every_problem_has_a_size_and_up_to_level_3_a_fingerprint():
    problem_set = ProblemSet()
    for level, count in PROBLEM_COUNTS.items():
        assert problem_set.ids(level) == list(range(1, count + 1))
    names = {f"{level}_{i}" for level in (1, 2, 3) for i in problem_set.ids(level)}
    assert set(read_fingerprints()) == names
    assert set(read_sizes()) == names | {f"4_{i}" for i in problem_set.ids(4)}


def test_no_problem_changed_since_it_was_proven():
    now = {f"{p.level}_{p.problem_id}": p.sha256 for p in ProblemSet() if p.level < 4}
    proven = read_proven()
    changed = sorted(name.replace("_", "/") for name in now if now[name] != proven.get(name))
    assert not changed, f"run: kbl problems check --prove --only {','.join(changed)}"


def copy_of(folder, *names, edit=lambda text: text):
    """Copy some problems of this set, edited, to a folder of the same layout."""
    for name in names:
        level, _, file = name.partition("/")
        target = folder / f"level{level}" / file
        target.parent.mkdir(parents=True, exist_ok=True)
        text = (PROBLEM_SET / f"level{level}" / file).read_text()
        target.write_text(edit(text))
    return folder


MISTAKES = {
    "another function": ("1/19_ReLU.py", ("relu", "tanh"), "output 0: "),
    "another size at the end": ("1/19_ReLU.py", ("dim = 393216", "dim = 393217"), "full size"),
    "another distribution": ("1/19_ReLU.py", ("torch.rand(", "torch.randn("), "input 0: "),
    "another constant": ("1/5_Matrix_scalar_multiplication.py", ("3.14", "3.15"), "input 1: is 3.15"),
    "weights in another order": (
        "2/1_Conv2D_ReLU_BiasAdd.py",
        ("super().__init__()", "super().__init__()\n        torch.rand(1)"),
        "starts from other values",
    ),
    "an error": ("1/19_ReLU.py", ("def forward(self, ", "def forward(self, extra, "), "TypeError"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_wrong_problem_is_found_and_the_message_says_what(tmp_path, name):
    file, (old, new), message = MISTAKES[name]
    folder = copy_of(tmp_path, file, edit=lambda text: text.replace(old, new))
    assert old in (PROBLEM_SET / f"level{file}").read_text()
    (problem,) = ProblemSet(folder)
    assert message in " ".join(fingerprint_check(read_sizes())(problem).mistakes)


def test_another_folder_is_proven_equal_problem_by_problem(tmp_path):
    folder = copy_of(
        tmp_path, "1/19_ReLU.py", "3/24_EfficientNetB2.py", edit=lambda text: text + "\n# theirs\n"
    )
    check = twin_check(list(ProblemSet(folder)), read_sizes())
    problem_set = ProblemSet()
    assert check(problem_set.load(1, 19)).holds
    assert check(problem_set.load(3, 24)).holds
    assert check(problem_set.load(1, 20)).mistakes == ("the other folder has no such problem",)


def test_a_folder_that_does_something_else_is_told_apart(tmp_path):
    copy_of(tmp_path, "1/19_ReLU.py", edit=lambda text: text.replace("relu", "tanh"))
    copy_of(tmp_path, "1/20_LeakyReLU.py")
    shutil.move(tmp_path / "level1/20_LeakyReLU.py", tmp_path / "level1/20_Leaky.py")
    check = twin_check(list(ProblemSet(tmp_path)), read_sizes())
    problem_set = ProblemSet()
    assert any("output 0" in mistake for mistake in check(problem_set.load(1, 19)).mistakes)
    assert check(problem_set.load(1, 20)).mistakes == ("is named 20_Leaky there",)


def test_level_four_is_compared_by_its_settings_as_it_cannot_run_here(tmp_path):
    first = next(iter(sorted((PROBLEM_SET / "level4").glob("1_*.py"))))
    copy_of(tmp_path, f"4/{first.name}", edit=lambda text: text.replace("batch_size = 32", "batch_size = 33"))
    (twin,) = ProblemSet(tmp_path)
    finding = twin_check([twin], {})(ProblemSet().load(4, 1))
    assert finding.mistakes == ("batch_size is 33 there, 32 here",)


def test_the_command_proves_in_processes_of_its_own_and_writes_what_it_found(tmp_path):
    folder = copy_of(
        tmp_path / "set", "1/19_ReLU.py", "1/20_LeakyReLU.py", edit=lambda t: t.replace("relu", "tanh")
    )
    program = "from leaderboard.cli import app; app()"
    out = tmp_path / "found.json"
    arguments = ["problems", "check", "--root", str(folder), "--jobs", "2", "--out", str(out)]
    ended = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False, timeout=240
    )
    assert ended.returncode == 1, ended.stderr
    assert ended.stdout.splitlines()[-1] == "0 of 2 problems hold"
    assert [len(item["mistakes"]) > 0 for item in json.loads(out.read_text())["problems"]] == [True, True]


def test_a_forward_at_full_size_is_timed_and_compared_by_shape(tmp_path):
    arguments = ["problems", "check", "--only", "3/9", "--sizes", "full", "--out", str(tmp_path / "o.json")]
    ended = CliRunner().invoke(app, arguments)
    (found,) = json.loads((tmp_path / "o.json").read_text())["problems"]
    assert ended.exit_code == 0
    assert (found["holds"], found["finite"], found["error"]) == (True, True, "")
    assert ended.stdout.splitlines()[0] == f"3_9: holds: {found['seconds']} s"


@pytest.mark.parametrize("chosen", [["--sizes", "full"], ["--device", "cuda"]])
def test_what_would_compare_nothing_is_refused(tmp_path, chosen):
    arguments = ["problems", "check", "--only", "1/19", "--against", str(tmp_path), *chosen]
    ended = CliRunner().invoke(app, arguments)
    assert ended.exit_code == 2
    assert "--against compares at reduced sizes on the CPU" in ended.stderr


@pytest.mark.parametrize("chosen", [["--root", "."], ["--against", "."], ["--sizes", "full"]])
def test_what_others_give_is_not_kept_as_proven(chosen):
    ended = CliRunner().invoke(app, ["problems", "check", "--only", "1/19", "--prove", *chosen])
    assert ended.exit_code == 2
    assert "--prove keeps what KernelBench's own problems give" in ended.stderr


@pytest.mark.parametrize(
    "command", [["problems", "list"], ["problems", "check"], ["certify", "--device", "cpu"]]
)
def test_a_choice_that_picks_no_problem_is_refused(command):
    ended = CliRunner().invoke(app, [*command, "--level", "1", "--only", "2/40"])
    assert ended.exit_code == 2
    assert "--level and --only pick no problem" in ended.stderr


@pytest.mark.parametrize("text", ["{}", "[", "[]"])
@pytest.mark.parametrize("option", ["--out", "--twins"])
def test_certify_names_a_file_that_is_none_of_its_own(tmp_path, text, option):
    (tmp_path / "broken.json").write_text(text)
    files = {name: str(tmp_path / "new.json") for name in ("--out", "--twins")}
    files[option] = str(tmp_path / "broken.json")
    named = [part for pair in files.items() for part in pair]
    ended = CliRunner().invoke(
        app, ["certify", "--device", "cpu", "--only", "1/19", "--limit-s", "0", *named]
    )
    assert ended.exit_code == 2
    assert f"{tmp_path / 'broken.json'}: no file that kbl certify wrote" in ended.stderr


def test_a_problem_is_shown_by_place_or_name_at_either_size():
    by_place = CliRunner().invoke(app, ["problems", "show", "1/19"]).output
    assert by_place == CliRunner().invoke(app, ["problems", "show", "19_ReLU.py"]).output
    assert "batch_size = 4\n" in CliRunner().invoke(app, ["problems", "show", "1/19", "--reduced"]).output
    ended = CliRunner().invoke(app, ["problems", "show", "1/101"])
    assert ended.exit_code == 2
    assert "must be 1-100, got 101" in ended.stderr


def test_the_list_names_the_version_and_the_digest_of_the_whole_set():
    listed = CliRunner().invoke(app, ["problems", "list", "--only", "1/19"])
    assert listed.stderr == f"KernelBench {SET_VERSION}: 270 problems, digest {ProblemSet().sha256()[:12]}\n"
    assert listed.stdout.startswith("1/19\t19_ReLU\t")
    assert listed.stdout.count("\n") == 1


def test_a_folder_without_problems_is_a_mistake_in_one_line(tmp_path):
    listed = CliRunner().invoke(app, ["problems", "list", "--root", str(tmp_path)])
    assert (2, "") == (listed.exit_code, listed.stdout)
    assert listed.stderr.startswith("error: no problem files like level1/1_Name.py")
