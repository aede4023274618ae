"""The whole way with the evaluator itself: two real kernels, judged on this machine's CPU at reduced sizes."""

import json
from pathlib import Path

import pytest

pytest.importorskip("github")
pytest.importorskip("torch")

from fakes.fake_github import Host, serve
from fakes.project import PEOPLE, Project, make_origin
from fakes.runner import Runner

RELU = "import torch\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x.clamp(min=0)\n"
ZERO = RELU.replace("x.clamp(min=0)", "torch.zeros_like(x)")
HOSTILE = RELU.replace(
    "        return",
    '        print("::error::@everyone ##[error]<b>")\n        raise ValueError("::error::@maria `x`")\n        return',
)
KERNELS = {
    "level_1_problem_19_sample_0": RELU,
    "level_1_problem_19_sample_1": ZERO,
    "level_1_problem_19_sample_2": HOSTILE,
}


@pytest.fixture
def project(tmp_path: Path):
    bare = make_origin(tmp_path / "origin", engine="local", with_code=True)
    host = Host(git_dir=bare, people=dict(PEOPLE))
    with serve(host) as url:
        yield Project(host=host, runner=Runner(host, url, tmp_path / "runs"), folder=tmp_path)


@pytest.mark.timeout(900)
def test_real_kernels_are_judged_and_published(project: Project) -> None:
    raw = json.dumps({"metadata": {"display_name": "::error::@everyone <b>"}, "kernels": KERNELS}, indent=1)
    pull = project.open_pull({"submissions/alice-first.json": raw.encode()})
    lines = []
    for _ in range(5):  # it is to be labelled again where the host was too busy for a verdict
        run = project.label(pull)
        lines += [line.strip() for line in run.log.splitlines()]
        if run.results["evaluate"] == "success":
            break

    assert ("success", "success") == (run.results["evaluate"], run.results["publish"]), run.log
    right, *others = (row["status"] for row in project.result("alice-first")["rows"])
    assert (right in ("correct", "quarantined"), others) == (True, ["mismatch", "runtime_error"])
    assert not [line for line in lines if line.startswith("::") or "##[" in line]
    comment = project.comment(pull)
    assert "`::error::@everyone <b>`" in comment
