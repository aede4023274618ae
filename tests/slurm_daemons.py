"""Slurm's own daemons on this host, as so many nodes: what the recipe of docs/cluster.md is tried under."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from free_ports import free_port
from ray_cluster import QUICK

NEEDED = ("slurmctld", "slurmd", "sbatch", "munged")
LACKING = [name for name in NEEDED if shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin") is None]

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
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
NODE = "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=4 RealMemory=4000 State=UNKNOWN\n"
MUNGE = {"key-file": "key", "socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}


@contextlib.contextmanager
def slurm(nodes: Sequence[str]) -> Iterator[dict[str, str]]:
    """Give the environment in which Slurm's commands find the nodes, once all of these are idle."""
    folder = Path(f"/tmp/kbl-slurm-{os.getpid()}")  # a socket's path must be short
    folder.mkdir()
    environment = {**os.environ, **QUICK, "SLURM_CONF": str(folder / "slurm.conf")}
    environment["PATH"] += ":/usr/sbin:/sbin"
    environment.pop("CI", None)  # where it is set, verdicts are not shown as they come
    _configure(folder, nodes)
    commands = [
        ["munged", "-F", "--force", *(f"--{name}={folder}/munge.{end}" for name, end in MUNGE.items())],
        ["slurmctld", "-D"],
        *(["slurmd", "-D", "-N", name] for name in nodes),
    ]
    daemons: list[subprocess.Popen[bytes]] = []
    try:
        for command in commands:
            daemons.append(
                subprocess.Popen(
                    command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
                )
            )
            time.sleep(0.5)
        until = time.monotonic() + 60
        while said(["sinfo", "-h", "-N", "-o", "%T"], environment).split() != ["idle"] * len(nodes):
            assert time.monotonic() < until, (folder / "slurmctld.log").read_text()
            time.sleep(0.3)
        yield environment
    finally:
        said(["scancel", "--full", "-u", "root"], environment)
        time.sleep(1)
        for daemon in reversed(daemons):
            daemon.terminate()
        for daemon in daemons:
            with contextlib.suppress(subprocess.TimeoutExpired):  # where a step could not be ended
                daemon.wait(timeout=20)
        for pid in started_with(f"SLURM_CONF={folder}/slurm.conf"):
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(folder)


def _configure(folder: Path, nodes: Sequence[str]) -> None:
    host = socket.gethostname().partition(".")[0]
    control, *ports = (free_port() for _ in range(1 + len(nodes)))
    conf = CONF.format(host=host, folder=folder, control=control)
    for name, port in zip(nodes, ports, strict=True):
        conf += NODE.format(name=name, host=host, port=port)
        (folder / f"spool.{name}").mkdir()
    (folder / "slurm.conf").write_text(conf)
    (folder / "state").mkdir()
    (folder / "munge.key").write_bytes(os.urandom(1024))
    (folder / "munge.key").chmod(0o600)


def said(command: Sequence[str], environment: Mapping[str, str]) -> str:
    """Run a command; give all that it said."""
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def submitted(there: Mapping[str, str], folder: Path, *options: str, nodes: int = 2) -> tuple[str, Path]:
    """Hand the recipe of docs/cluster.md to Slurm from a folder; give the job's number and its output."""
    text = (Path(__file__).parents[1] / "docs/cluster.md").read_text()
    [recipe] = re.findall(r"```bash\n(#!/bin/bash\n.*?)```", text, re.DOTALL)
    (folder / ".venv").symlink_to(Path(sys.executable).parents[1])
    (folder / "kbl.sbatch").write_text(recipe)
    (out := folder / "out.txt").touch()
    environment = {
        **there,
        "RAY_HEAD": "127.0.0.1",
        "RAY_OPTIONS": "--num-cpus=1 --object-store-memory=90000000 --node-ip-address=127.0.0.1",
        "KERNELBENCH_CACHE": str(folder / "cache"),
    }
    command = ["sbatch", f"--nodes={nodes}", "--gpus-per-node=0", "--parsable", "-o", str(out), "kbl.sbatch"]
    started = subprocess.run(
        [*command, *options], cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    return started.stdout.strip(), out


def started_with(variable: str, command: str = "") -> list[int]:
    """The processes whose environment holds `variable` and whose command line holds `command`: their pids."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            environment, line = (entry / "environ").read_bytes(), (entry / "cmdline").read_bytes()
            if variable.encode() in environment and command.encode() in line:
                found.append(int(entry.name))
    return found


def agents(variable: str = "SLURM_JOB_ID") -> list[int]:
    """The raylets that run below Slurm; of one node with `SLURMD_NODENAME=…`."""
    return started_with(variable, "raylet/raylet")
