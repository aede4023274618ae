"""The recipe of docs/cluster.md under Slurm's own daemons: two nodes, and one whose agent is killed."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

pytest.importorskip("ray", reason="ray is not installed: pip install '.[ray]'")
NEEDED = ("slurmctld", "slurmd", "sbatch", "munged")
LACKING = [name for name in NEEDED if shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin") is None]
pytestmark = [
    pytest.mark.skipif(bool(LACKING), reason=f"{', '.join(LACKING)} missing: apt-get install slurm-wlm"),
    pytest.mark.skipif(os.geteuid() != 0, reason="Slurm's daemons need root"),
    pytest.mark.timeout(280),
]

from evaluating import RIGHT, SOURCE, kernel  # noqa: E402  # after what may skip this
from ray_cluster import QUICK  # noqa: E402

CONF = """
ClusterName=kbl
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmctldPort={control}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
KillWait=5
SlurmdParameters=config_overrides
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={first} CPUs=4 RealMemory=4000 State=UNKNOWN
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={second} CPUs=4 RealMemory=4000 State=UNKNOWN
PartitionName=all Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
"""


def free_ports(count):
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


@pytest.fixture
def slurm(tmp_path):
    """Slurm's environment, once both nodes are idle."""
    folder = Path(f"/tmp/kbl-slurm-{os.getpid()}")  # a socket's path must be short
    folder.mkdir()
    host = socket.gethostname().partition(".")[0]
    control, first, second = free_ports(3)
    conf = CONF.format(host=host, folder=folder, control=control, first=first, second=second)
    (folder / "slurm.conf").write_text(conf)
    for name in ("state", "spool.n1", "spool.n2"):
        (folder / name).mkdir()
    (folder / "munge.key").write_bytes(os.urandom(1024))
    (folder / "munge.key").chmod(0o600)
    environment = {**os.environ, **QUICK, "SLURM_CONF": str(folder / "slurm.conf")}
    environment.pop("CI", None)  # where it is set, verdicts are not shown as they come
    environment["PATH"] += ":/usr/sbin:/sbin"
    munge = [
        f"--{name}={folder}/munge.{end}"
        for name, end in (
            ("key-file", "key"),
            ("socket", "socket"),
            ("pid-file", "pid"),
            ("log-file", "log"),
            ("seed-file", "seed"),
        )
    ]
    daemons = []
    try:
        for command in (
            ["munged", "-F", "--force", *munge],
            ["slurmctld", "-D"],
            ["slurmd", "-D", "-N", "n1"],
            ["slurmd", "-D", "-N", "n2"],
        ):
            daemons.append(
                subprocess.Popen(
                    command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
                )
            )
            time.sleep(0.5)
        until = time.monotonic() + 60
        while (
            "idle" not in (said := run(["sinfo", "-h", "-N", "-o", "%T"], environment))
            or said.count("idle") < 2
        ):
            assert time.monotonic() < until, (folder / "slurmctld.log").read_text()
            time.sleep(0.3)
        yield environment
    finally:
        run(["scancel", "--full", "-u", "root"], environment)
        time.sleep(1)
        for daemon in reversed(daemons):
            daemon.terminate()
        for daemon in daemons:
            with contextlib.suppress(subprocess.TimeoutExpired):  # a test that failed leaves steps behind
                daemon.wait(timeout=20)
        for pid in started_with(f"SLURM_CONF={folder}/slurm.conf"):
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(folder)


def run(command, environment):
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def recipe(repository):
    """The file that docs/cluster.md says to save."""
    [text] = re.findall(
        r"```bash\n(#!/bin/bash\n.*?)```", (repository / "docs/cluster.md").read_text(), re.DOTALL
    )
    return text


def test_the_recipe_judges_an_entry_though_a_node_s_agent_is_killed(slurm, tmp_path, repository):
    (tmp_path / ".venv").symlink_to(Path(os.sys.executable).parents[1])
    (tmp_path / "kbl.sbatch").write_text(recipe(repository))
    (tmp_path / "problems/level1").mkdir(parents=True)
    (tmp_path / "problems/level1/1_Tiny.py").write_text(SOURCE)
    slow = "import time\ntime.sleep(1.5)\n"  # the second node is there before the last kernel is judged
    sources = [
        slow + RIGHT,
        slow + RIGHT.replace("min=0", "min=0.5"),
        slow + kernel("raise ValueError('no')"),
        "class ModelNew(",
    ]
    kernels = {f"level_1_problem_1_sample_{at}": f"{sources[at % 4]}\n# {at}\n" for at in range(24)}
    (tmp_path / "entry.json").write_text(json.dumps({"metadata": {"display_name": "x"}, "kernels": kernels}))
    environment = {
        **slurm,
        "RAY_HEAD": "127.0.0.1",
        "RAY_OPTIONS": "--num-cpus=1 --object-store-memory=90000000 --node-ip-address=127.0.0.1",
        "KERNELBENCH_CACHE": str(tmp_path / "cache"),
    }
    command = [
        "sbatch",
        "--gpus-per-node=0",
        "--parsable",
        "-o",
        str(tmp_path / "out.txt"),
        "kbl.sbatch",
        "entry.json",
    ]
    command += ["--device", "cpu", "--problems", "problems", "--profile", "compat"]
    started = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    job = started.stdout.strip()
    out = tmp_path / "out.txt"
    until = time.monotonic() + 240
    while not (agents("SLURMD_NODENAME=n2") and "[4/24]" in out.read_text()):
        assert time.monotonic() < until and job in run(["squeue", "-h"], environment), (
            out.read_text() if out.exists() else ""
        )
        time.sleep(0.2)
    [agent] = agents("SLURMD_NODENAME=n2")
    os.kill(agent, signal.SIGKILL)
    while job in run(["squeue", "-h"], environment):
        assert time.monotonic() < until, out.read_text()
        time.sleep(0.5)
    [work] = tmp_path.glob("build/evaluations/*/entry.json")
    rows = {row["key"]: row["status"] for row in json.loads(work.read_text())["rows"]}
    expected = ["correct", "mismatch", "runtime_error", "compile_error"]
    assert {key: expected[at % 4] for at, key in enumerate(kernels)} == rows, out.read_text()
    assert [] == agents()


def started_with(variable, command=""):
    """The processes whose environment holds `variable` and whose command line holds `command`: their pids."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            environment, said = (entry / "environ").read_bytes(), (entry / "cmdline").read_bytes()
            if variable.encode() in environment and command.encode() in said:
                found.append(int(entry.name))
    return found


def agents(variable="SLURM_JOB_ID"):
    """The raylets that run below Slurm."""
    return started_with(variable, "raylet/raylet")
