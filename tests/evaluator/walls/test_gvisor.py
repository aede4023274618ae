"""The walls under gVisor, in which Modal runs its containers; `make gvisor` judges 25 cases there."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "benchmarks"))

import gvisor  # noqa: E402

RUNSC = gvisor.find_runsc()
UNTIMED = "e63b x21 x22"
"""Cases that fail before anything is timed: whoever uses the machine beside cannot change their verdicts."""


@pytest.mark.timeout(300)
def test_every_wall_stands_and_cheats_get_what_they_get_elsewhere():
    if RUNSC is None:
        pytest.skip("gVisor's runsc is not here: `make gvisor` fetches it, or RUNSC names it")
    if gvisor.inside(RUNSC, "true", 60).returncode != 0:
        pytest.skip("gVisor's runsc is here and does not run: it takes root")
    ended = gvisor.cases(RUNSC, UNTIMED)
    assert ended.wrong == []
    assert set(ended.said) == set(UNTIMED.split())


def test_what_is_judged_there_are_25_cases_of_the_manifest():
    assert len(set(gvisor.CASES.split())) == 25
    assert set(gvisor.CASES.split()) <= set(gvisor.expected())


def test_a_package_with_another_digest_is_not_unpacked(tmp_path, monkeypatch):
    other = tmp_path / "runsc.deb"
    other.write_bytes(b"another one")
    monkeypatch.setattr(gvisor, "URL", other.as_uri())
    monkeypatch.setattr(gvisor, "FOLDER", tmp_path / "unpacked")
    with pytest.raises(OSError, match="is not the package that is pinned"):
        gvisor.fetch()
    assert sorted(tmp_path.iterdir()) == [other]


def test_a_missing_wall_is_wrong_whatever_the_verdict(monkeypatch):
    row = '{"id": "x21", "row": {"status": "rejected"}, "environment": {"isolation": ["mount", "pid"]}}'
    done = subprocess.CompletedProcess([], 0, f"! x21\n{gvisor.SAYS}\n{row}\n", "")
    monkeypatch.setattr(gvisor, "inside", lambda *_: done)
    ended = gvisor.cases(Path("runsc"), "x21 x22")
    assert ended.wrong == [
        "x22 got no verdict, expected mismatch or rejected",
        "x21 was judged without ipc, network, no-new-privileges, root, seccomp, shared-memory, uid, uts",
    ]
