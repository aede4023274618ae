"""What runs inside a remote container: the check of the device, builds on their way, and that nothing is raised."""

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from kernel_evaluator.engines.remote_build import (
    ARCH,
    MAX_FILES,
    RefusedBuildError,
    build,
    pack,
    read_builds,
    unpack,
)
from kernel_evaluator.engines.wire import pack_request
from kernel_evaluator.engines.worker import device_problem, judge
from kernel_evaluator.problems.jobs import Job, Settings, Verdict
from kernel_evaluator.problems.problem_set import ProblemSet
from kernel_evaluator.records.keys import KernelKey

RIGHT = "NVIDIA H100 80GB HBM3, 9.0, 81559\n"
NAME, DIGEST = "a" * 64, "b" * 64
JOB = Job(key=KernelKey(1, 19), source="class ModelNew: pass\n", problem=ProblemSet().load(1, 19))


class Breaks:
    """An engine whose machinery fails."""

    def run(self, jobs: Sequence[Job], settings: Settings) -> Iterator[Verdict]:
        raise RuntimeError("the oracle did not start")


def test_the_boards_device_is_accepted() -> None:
    assert "" == device_problem("H100", RIGHT)


@pytest.mark.parametrize(
    "answer",
    [
        "NVIDIA H200, 9.0, 143771\n",
        "NVIDIA H100 PCIe, 9.0, 81559\n",
        "NVIDIA H100 80GB HBM3, 9.0, 40536\n",
        "NVIDIA H100 80GB HBM3, 8.0, 81559\n",
        RIGHT + RIGHT,
        "",
    ],
)
def test_any_other_device_is_refused(answer: str) -> None:
    assert device_problem("H100", answer)


def test_nothing_is_judged_on_another_device() -> None:
    answer = json.loads(judge("not even read", gpu="H100", query=lambda: "NVIDIA H200, 9.0, 143771\n"))

    assert "H200" in answer["fault"]
    assert [] == answer["verdicts"]


@pytest.mark.parametrize("request_text", [pack_request([JOB], Settings()), "{", "[]"])
def test_a_broken_engine_or_request_is_an_answer_and_no_exception(request_text: str) -> None:
    answer = json.loads(judge(request_text, gpu="H100", make=lambda _: Breaks(), query=lambda: RIGHT))

    assert answer["fault"]


def test_a_build_arrives_as_it_was_packed(tmp_path: Path) -> None:
    (tmp_path / "from" / DIGEST).mkdir(parents=True)
    (tmp_path / "from" / "build.json").write_text('{"status": "built"}')
    (tmp_path / "from" / DIGEST / "m.so").write_bytes(os.urandom(5000))

    unpack(read_builds(json.dumps({NAME: pack(tmp_path / "from")})), tmp_path / "to")

    library = tmp_path / "to" / NAME / DIGEST / "m.so"
    assert (tmp_path / "from" / DIGEST / "m.so").read_bytes() == library.read_bytes()
    assert not library.stat().st_mode & 0o222


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{",
        '{"fault": "no compiler"}',
        json.dumps({"../../etc": {}}),
        json.dumps({NAME: {"../x.so": ""}}),
        json.dumps({NAME: {f"{DIGEST}/../x.so": ""}}),
        json.dumps({NAME: {"/etc/passwd": ""}}),
        json.dumps({NAME: {f"{DIGEST}/m.so": 7}}),
        json.dumps({NAME: {f"{DIGEST}/{i}.so": "" for i in range(MAX_FILES + 1)}}),
    ],
)
def test_anything_but_a_build_is_refused(text: str) -> None:
    with pytest.raises(RefusedBuildError):
        read_builds(text)


@pytest.mark.parametrize("content", ["***", "YWJj"])
def test_a_broken_file_of_a_build_is_refused(tmp_path: Path, content: str) -> None:
    with pytest.raises(RefusedBuildError):
        unpack({NAME: {"build.json": content}}, tmp_path)


COMPILED = """import torch
from torch.utils.cpp_extension import load_inline

one = "extern \\"C\\" int one() { return 1; }"
module = load_inline("nothing_much", one, is_python_module=False, no_implicit_headers=True)

class ModelNew(torch.nn.Module):
    def forward(self, x):
        return x.relu()
"""


@pytest.mark.timeout(600)
@pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler; apt-get install g++")
def test_a_build_made_elsewhere_is_found_by_the_judging_container(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from kernel_evaluator.building.builder import Builder, BuildStatus

    job = Job(key=JOB.key, source=COMPILED, problem=JOB.problem)
    tmp_path.chmod(0o711)
    unpack(read_builds(build(pack_request([job], Settings()))), tmp_path)
    with Builder(cache_root=tmp_path, arch=ARCH) as builder:
        found = builder.submit(job).result()

    assert BuildStatus.BUILT is found.status, found
    assert found.reused


def test_a_kernel_that_needs_no_compiling_gives_no_build() -> None:
    assert {} == json.loads(build(pack_request([JOB], Settings())))
