import json
from pathlib import Path

import pytest
from commandline import kbl, kbl_process
from compiling import HEAD, TINY
from kernel_evaluator.machine.architectures import COMPUTE_CAPABILITIES, require_cuda_targets

MODEL = "\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x\n"


def submission(path: Path, *sources: str) -> Path:
    kernels = {f"level_1_problem_{19 + i}_sample_0": source + MODEL for i, source in enumerate(sources)}
    path.write_text(json.dumps({"metadata": {"display_name": "Builds"}, "kernels": kernels}))
    return path


def test_build_fills_the_cache_and_says_what_came_of_each_kernel(tmp_path: Path) -> None:
    path = submission(tmp_path / "entry.json", TINY, "import torch")
    first = kbl_process("build", path, "--cache", tmp_path / "cache", "--jobs", "1")
    assert first.returncode == 0, first.stderr
    assert "entry 1/19 load_inline: built" in first.stderr
    again = kbl_process("build", path, "--cache", tmp_path / "cache", "--jobs", "1")
    assert again.returncode == 0
    assert "from the cache" in again.stderr
    header, _, row = again.stdout.strip().splitlines()
    assert "from cache" in header
    assert row.split()[:5] == ["entry", "2", "0", "1", "1"]


def test_a_kernel_that_does_not_compile_fails_the_command(tmp_path: Path) -> None:
    bad = HEAD + "ext = load_inline('bad', 'int block = unlock;', no_implicit_headers=True)"
    ended = kbl_process("build", submission(tmp_path / "entry.json", bad), "--cache", tmp_path / "cache")
    assert ended.returncode == 1
    assert "main.cpp:1:13: error: 'unlock' was not declared" in ended.stdout.replace("‘", "'").replace(
        "’", "'"
    )


def test_a_file_that_is_no_submission_stops_the_command(tmp_path: Path) -> None:
    (tmp_path / "entry.json").write_text("{}")
    for path in (tmp_path / "entry.json", tmp_path / "absent.json"):
        ended = kbl("build", path, "--cache", tmp_path / "cache")
        assert ended.returncode == 2
        assert "error: " in ended.stderr


@pytest.mark.parametrize("arch", ["banana", "sm_90", "9.0;banana", "gfx942"])
def test_a_target_that_no_build_is_for_is_refused_with_those_that_are(tmp_path: Path, arch: str) -> None:
    ended = kbl("build", submission(tmp_path / "entry.json", "import torch"), "--arch", arch)
    said = "".join(ended.stderr.split())
    assert (2, True) == (ended.returncode, "'--arch':mustbeoneof" in said), ended.stderr
    assert "9.0" in said and "Hopper" in said and arch in said


@pytest.mark.parametrize("arch", [*COMPUTE_CAPABILITIES, "8.0;9.0a+PTX", "8.6 8.9", "Hopper"])
def test_what_torch_compiles_for_is_taken(monkeypatch: pytest.MonkeyPatch, arch: str) -> None:
    cpp_extension = pytest.importorskip("torch.utils.cpp_extension")
    require_cuda_targets(arch)
    monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", arch)
    assert cpp_extension._get_cuda_arch_flags()


@pytest.mark.parametrize("seconds", ["nan", "inf", "-1", "1e9"])
def test_a_timeout_that_never_ends_or_never_begins_is_refused(tmp_path: Path, seconds: str) -> None:
    ended = kbl("build", submission(tmp_path / "entry.json", "import torch"), "--timeout", seconds)
    assert (2, True) == (ended.returncode, "--timeout" in ended.stderr), ended.stderr


def test_a_choice_that_picks_no_kernel_is_refused(tmp_path):
    path = submission(tmp_path / "entry.json", "import torch")
    ended = kbl("build", path, "--cache", tmp_path / "cache", "--only", "3/50")
    assert ended.returncode == 2
    assert f"{path}: --level, --only and --sample pick none of its kernels" in ended.stderr
