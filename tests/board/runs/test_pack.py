"""Run folders become submission files that validate, and come back unchanged."""

import json
import os
import resource
import stat
from pathlib import Path

import pytest
from commandline import kbl, kbl_process
from kernel_evaluator.records.keys import KernelKey
from kernel_evaluator.upstream.files import RunFolder

from leaderboard.checks.report import validate_file
from leaderboard.files.submission import load
from leaderboard.generate.completions import Completion
from leaderboard.generate.journal import Journal
from leaderboard.generate.run import write_config
from leaderboard.runs.pack import PackError, find_kernels, generation_metadata, pack, unpack

KERNEL = "import torch\r\n\n\nclass ModelNew(torch.nn.Module):\n    pass  # größer\n"


def run_folder(path, *keys):
    run = RunFolder(path=path)
    for key in keys:
        run.write_kernel(key, KERNEL)
    return run


def test_kernels_travel_through_a_submission_byte_for_byte(tmp_path):
    keys = [KernelKey(1, 1), KernelKey(1, 2, 3), KernelKey(4, 20)]
    run_folder(tmp_path / "a", *keys[:2])
    run_folder(tmp_path / "b", keys[2])
    done = kbl("pack", tmp_path / "mine.json", tmp_path / "a", tmp_path / "b", "--display-name", "Mine")
    assert (0, True) == (done.returncode, validate_file(tmp_path / "mine.json").is_fine), done.stderr
    assert "level 1 lacks 98 kernels" in done.stderr
    assert 0o644 == stat.S_IMODE((tmp_path / "mine.json").stat().st_mode), "others cannot read it"
    again = kbl("unpack", tmp_path / "mine.json", "--runs", tmp_path / "runs")
    assert [str(tmp_path / "runs" / f"mine_level{level}") for level in (1, 4)] == again.stdout.split()
    assert dict.fromkeys(keys, KERNEL) == find_kernels([tmp_path / "runs"])
    assert (
        tmp_path / "runs/mine_level4/level_4_problem_20_sample_0_kernel.py"
    ).read_bytes() == KERNEL.encode()


def test_a_level_of_which_all_kernels_are_there_lacks_none():
    whole = {KernelKey(4, problem): KERNEL for problem in range(1, 21)}
    assert {} == pack(whole, {"display_name": "Mine"}, "mine.json").missing
    assert {4: 19} == pack({KernelKey(4, 1): KERNEL, KernelKey(4, 1, 1): KERNEL}, {}, "mine.json").missing


def test_a_folder_of_one_s_own_is_read_by_its_names(tmp_path):
    for name in ("level1/23_Softmax.py", "level_2/7.py", "level_3_problem_5_sample_2.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(KERNEL)
    (tmp_path / "helper.py").write_text("x = 1")
    assert [KernelKey(1, 23), KernelKey(2, 7), KernelKey(3, 5, 2)] == list(find_kernels([tmp_path]))
    assert [KernelKey(3, 5, 2)] == list(find_kernels([tmp_path], samples=[2]))


def test_what_is_not_packed_is_named_and_a_good_file_is_not_replaced_by_nothing(tmp_path):
    run = run_folder(tmp_path / "run", KernelKey(1, 19))
    (run.path / "level_1_problem_20_kernel.py").write_text(KERNEL)
    output = tmp_path / "mine.json"
    done = kbl("pack", output, run.path, "--display-name", "Mine")
    assert (0, True) == (done.returncode, "level_1_problem_20_kernel.py is left out" in done.stderr)
    before = output.read_bytes()
    none = kbl("pack", output, run.path, "--display-name", "Mine", "--sample", "7")
    assert (2, before) == (none.returncode, output.read_bytes())
    assert "no kernel of sample 7" in none.stderr
    wrong = kbl("pack", output, run.path, "--display-name", "Mine", "--url", "ftp://x")
    assert (2, before) == (wrong.returncode, output.read_bytes())
    assert "is left as it was" in wrong.stderr and "ftp://x" in wrong.stderr
    again = kbl("pack", output, run.path, "--display-name", "Ours")
    assert (0, True) == (again.returncode, "in place of the file that was there" in again.stdout)
    folder = kbl("pack", tmp_path, run.path, "--display-name", "Mine")
    assert (2, True) == (folder.returncode, f"error: {tmp_path} cannot be written" in folder.stderr)


def test_a_full_disk_leaves_the_file_of_before(tmp_path):
    def fill():
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    run = run_folder(tmp_path / "run", KernelKey(1, 19))
    output = tmp_path / "out" / "mine.json"
    arguments = ("pack", output, run.path, "--display-name", "Mine")
    assert 0 == kbl(*arguments).returncode
    before = output.read_bytes()
    no_cache = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}  # which would be cut off, too
    done = kbl_process(*arguments, "--notes", "longer", preexec_fn=fill, env=no_cache)
    assert (2, True) == (done.returncode, f"error: {output} cannot be written" in done.stderr), done.stderr
    assert ([output], before) == (list(output.parent.iterdir()), output.read_bytes())


def test_a_name_that_is_no_text_is_an_error(tmp_path):
    run = run_folder(tmp_path / "run", KernelKey(1, 19))
    output = tmp_path / "mine.json"
    done = kbl("pack", output, run.path, "--display-name", os.fsdecode(b"caf\xe9"))
    assert (2, True) == (done.returncode, f"error: {output} cannot be written" in done.stderr), done.stderr
    assert not output.exists()


def test_two_files_for_one_key_an_empty_folder_and_a_wrong_number_are_said(tmp_path):
    run_folder(tmp_path / "a", KernelKey(1, 1))
    run_folder(tmp_path / "b", KernelKey(1, 1))
    (tmp_path / "c").mkdir()
    (tmp_path / "d/level1").mkdir(parents=True)
    (tmp_path / "d/level1/101.py").write_text(KERNEL)
    with pytest.raises(PackError, match="claimed by two files"):
        find_kernels([tmp_path / "a", tmp_path / "b"])
    with pytest.raises(PackError, match="no kernel here"):
        find_kernels([tmp_path / "c"])
    with pytest.raises(PackError, match="1-100"):
        find_kernels([tmp_path / "d"])


def test_a_level_s_folder_may_be_where_one_stands(tmp_path, monkeypatch):
    (tmp_path / "level1").mkdir()
    (tmp_path / "level1/19_ReLU.py").write_text(KERNEL)
    monkeypatch.chdir(tmp_path / "level1")
    for path in (".", "19_ReLU.py"):
        assert [KernelKey(1, 19)] == list(find_kernels([Path(path)])), path


def test_a_file_that_two_paths_lead_to_is_packed_once(tmp_path):
    run_folder(tmp_path / "a", KernelKey(1, 1))
    assert [KernelKey(1, 1)] == list(find_kernels([tmp_path, tmp_path / "a"]))


def test_a_pack_whose_samples_score_nothing_says_so(tmp_path):
    run = run_folder(tmp_path / "run", KernelKey(1, 19), KernelKey(1, 19, 2))
    arguments = ("pack", tmp_path / "mine.json", run.path, "--display-name", "Mine")
    note = "1/19 has samples but no sample 0, which alone is scored"
    assert [False, True] == [note in kbl(*arguments, *more).stderr for more in ((), ("--sample", "2"))]


def test_copies_that_an_editor_keeps_are_not_kernels(tmp_path):
    run = run_folder(tmp_path / "run", KernelKey(1, 19))
    run_folder(run.path / ".history", KernelKey(1, 19), KernelKey(1, 20))
    assert list(find_kernels([run.path])) == [KernelKey(1, 19)]
    assert list(find_kernels([run.path / ".history"])) == [KernelKey(1, 19), KernelKey(1, 20)]


def test_what_the_run_recorded_of_the_model_goes_along(tmp_path):
    run = run_folder(tmp_path / "a", KernelKey(1, 1))
    write_config(
        run.config_path, {"model_name": "m-1", "temperature": 0.5, "backend": "triton", "num_samples": 2}
    )
    assert {
        "backend": "triton",
        "generation": {"model": "m-1", "temperature": 0.5, "samples": 2},
    } == generation_metadata([tmp_path / "a"])
    done = kbl("pack", tmp_path / "x.json", tmp_path / "a", "--display-name", "X", "--model", "m-2")
    assert 0 == done.returncode, done.stderr
    metadata = json.loads((tmp_path / "x.json").read_text())["metadata"]
    assert ("triton", "m-2", 0.5) == (
        metadata["backend"],
        metadata["generation"]["model"],
        metadata["generation"]["temperature"],
    )


def test_what_runs_recorded_differently_is_said_of_none_of_them(tmp_path):
    facts = {"num_samples": 1, "backend": "triton", "precision": "fp32"}
    runs = [run_folder(tmp_path / name, KernelKey(1, at)) for at, name in enumerate("ab", 1)]
    for run, model in zip(runs, ("m-1", "m-2"), strict=True):
        write_config(run.config_path, {**facts, "model_name": model})
    folders = [run.path for run in runs]
    done = kbl("pack", tmp_path / "x.json", *folders, "--display-name", "X")
    said = f"warning: model is left out, since it is 'm-1' in {folders[0]}, 'm-2' in {folders[1]}\n"
    assert (0, True) == (done.returncode, said in done.stderr), done.stderr
    metadata = json.loads((tmp_path / "x.json").read_text())["metadata"]
    assert ("triton", {"samples": 1}) == (metadata["backend"], metadata["generation"])
    named = kbl("pack", tmp_path / "x.json", *folders, "--display-name", "X", "--model", "m-1 and m-2")
    assert "left out" not in named.stderr
    write_config(runs[1].config_path, {**facts, "precision": "bf16"})
    done = kbl("pack", tmp_path / "y.json", *folders, "--display-name", "X")
    said = f"error: precision is 'fp32' in {folders[0]}, 'bf16' in {folders[1]}; pack runs of one precision"
    assert (2, True, False) == (
        done.returncode,
        done.stderr.startswith(said),
        (tmp_path / "y.json").exists(),
    )


def test_a_run_is_heard_once_whichever_path_leads_to_it(tmp_path):
    run = run_folder(tmp_path / "runs" / "a", KernelKey(1, 1))
    write_config(run.config_path, {"model_name": "m-1", "precision": "bf16"})
    reply = Completion(text="", cost_usd=0.25, prompt_tokens=7, completion_tokens=1)
    Journal(run.path).add_reply(KernelKey(1, 1), reply, turn=1)
    (tmp_path / "link").symlink_to(run.path)
    known = {"precision": "bf16", "generation": {"model": "m-1", "cost_usd": 0.25, "tokens": 8}}
    for paths in (
        [run.path, run.path],
        [run.path, tmp_path / "link"],
        [tmp_path / "runs"],
        [tmp_path / "runs", run.path],
        [run.kernel_path(KernelKey(1, 1))],
    ):
        assert known == generation_metadata(paths), paths


def test_what_is_given_counts_more_than_what_the_run_recorded(tmp_path):
    run = run_folder(tmp_path / "a", KernelKey(1, 1))
    write_config(run.config_path, {"backend": "triton", "precision": "fp32"})
    done = kbl("pack", tmp_path / "x.json", run.path, "--display-name", "X", "--backend", "cuda")
    assert 0 == done.returncode, done.stderr
    metadata = json.loads((tmp_path / "x.json").read_text())["metadata"]
    assert ("cuda", "fp32") == (metadata["backend"], metadata["precision"])


@pytest.mark.parametrize(
    ("took", "known"),
    [
        ([(0.25, 7, 1), (0.5, 0, 2)], {"cost_usd": 0.75, "tokens": 10}),
        ([(0.25, 7, 1), (None, 7, 1)], {"tokens": 16}),
        ([(0.25, 7, 1), (0.5, 0, 0)], {"cost_usd": 0.75}),
        ([(None, 0, 0)], {}),
        ([], {}),
    ],
)
def test_cost_and_tokens_go_along_where_those_of_every_answer_are_known(tmp_path, took, known):
    run = run_folder(tmp_path / "a", KernelKey(1, 1))
    write_config(run.config_path, {"model_name": "m-1"})
    for cost, read, written in took:
        reply = Completion(text="", cost_usd=cost, prompt_tokens=read, completion_tokens=written)
        Journal(run.path).add_reply(KernelKey(1, 1), reply, turn=1)
    assert {"model": "m-1", **known} == generation_metadata([run.path])["generation"]


def test_a_config_that_kernelbench_wrote_is_read(tmp_path):
    run = run_folder(tmp_path / "a", KernelKey(1, 1))
    run.config_path.write_bytes(
        b"\xef\xbb\xbfbackend: cuda\nmodel_name: deepseek/deepseek-r1\nsubset: !!python/tuple\n- null\n- null\nby: na\xefve\n"
    )
    assert {
        "backend": "cuda",
        "generation": {"model": "deepseek/deepseek-r1"},
    } == generation_metadata([tmp_path / "a"])


def test_a_kernel_that_will_not_compile_is_packed_with_a_warning(tmp_path):
    run_folder(tmp_path / "a", KernelKey(1, 1)).write_kernel(KernelKey(1, 2), "def broken(:\n")
    done = kbl("pack", tmp_path / "mine.json", tmp_path / "a", "--display-name", "Mine")
    assert 0 == done.returncode
    assert "warning: kernel 'level_1_problem_2_sample_0' is not Python" in done.stderr
    assert 2 == len(load(tmp_path / "mine.json").kernels)


def test_mistakes_are_shown_while_the_file_is_still_written(tmp_path):
    run_folder(tmp_path / "a", KernelKey(1, 1))
    done = kbl("pack", tmp_path / "mine.json", tmp_path / "a", "--display-name", "Mine", "--url", "nowhere")
    assert 1 == done.returncode
    assert "metadata.url" in done.stderr
    assert (tmp_path / "mine.json").is_file()


def test_a_name_is_required_where_nobody_can_be_asked(tmp_path):
    run_folder(tmp_path / "a", KernelKey(1, 1))
    done = kbl("pack", tmp_path / "mine.json", tmp_path / "a")
    assert 2 == done.returncode
    assert "--display-name" in done.stderr
    assert not (tmp_path / "mine.json").exists()


def test_unpacking_needs_no_command(tmp_path):
    (tmp_path / "e.json").write_text(pack({KernelKey(2, 9): KERNEL}, {"display_name": "E"}, "e.json").text)
    assert [tmp_path / "runs" / "r_level2"] == unpack(load(tmp_path / "e.json"), tmp_path / "runs", "r")


@pytest.mark.parametrize("theirs", [KernelKey(2, 9), KernelKey(2, 8)])
def test_other_kernels_in_a_run_are_neither_written_over_nor_mixed_with(tmp_path, theirs):
    entry, runs = tmp_path / "e.json", tmp_path / "runs"
    kernels = {KernelKey(1, 1): KERNEL, KernelKey(2, 9): KERNEL}
    entry.write_text(pack(kernels, {"display_name": "E"}, "e.json").text)
    run_folder(runs / "e_level2", KernelKey(2, 9))
    assert 0 == kbl("unpack", entry, "--runs", runs).returncode, "what is the same may be there"
    (runs / "e_level1/level_1_problem_1_sample_0_kernel.py").unlink()
    other = RunFolder(path=runs / "e_level2").kernel_path(theirs)
    other.write_text("# mine\n")
    done = kbl("unpack", entry, "--runs", runs)
    assert (2, "# mine\n") == (done.returncode, other.read_text())
    assert f"error: {other}: holds another kernel than the submission" in done.stderr
    assert not list((runs / "e_level1").iterdir())


@pytest.mark.parametrize("name", ["../evil", "/tmp/evil", "..", "a\\b"])
def test_unpacked_runs_stay_in_the_folder_of_the_runs(tmp_path, name):
    entry = tmp_path / "mine.json"
    entry.write_text(pack({KernelKey(2, 9): KERNEL}, {"display_name": "E"}, "mine.json").text)
    done = kbl("unpack", entry, "--runs", tmp_path / "runs", "--run-name", name)
    assert (2, [entry]) == (done.returncode, list(tmp_path.iterdir())), done.stderr
    assert f"error: run_name must be a plain name, without / and \\ and not .., got {name!r}" in done.stderr


def test_a_link_out_of_a_strangers_folder_is_not_followed(tmp_path):
    run = run_folder(tmp_path / "run", KernelKey(1, 19))
    (tmp_path / "secret").write_text("the key")
    link = run.path / "level_1_problem_20_sample_0.py"
    link.symlink_to(tmp_path / "secret")

    with pytest.raises(PackError, match=r"level_1_problem_20_sample_0\.py: is a link out of"):
        find_kernels([run.path])
    link.unlink()
    link.symlink_to(run.kernel_path(KernelKey(1, 19)))
    assert [KernelKey(1, 19), KernelKey(1, 20)] == list(find_kernels([run.path]))


@pytest.mark.parametrize(
    "line",
    ['{"event": "reply", "prompt_tokens": "many", "cost_usd": "much"}', "[" * 100_000],
    ids=["no numbers", "nested"],
)
def test_what_a_strangers_folder_says_of_its_model_ends_nothing(tmp_path, line):
    run = run_folder(tmp_path / "run", KernelKey(1, 19))
    (run.path / "generation.jsonl").write_text(line + "\n")
    (run.path / "generation_config.yaml").write_text(f"temperature: {line}\nmodel_name: mine\n")

    assert "mine" == generation_metadata([run.path])["generation"]["model"]
