"""The Modal app: one image an epoch, and what runs in it. Settings alone; the work is in `worker`.

No function has a secret, a network, a volume or a right on the workspace. Both take and give JSON text.
"""

from __future__ import annotations

from pathlib import PurePosixPath

import modal

from kernel_evaluator.engines import epoch
from kernel_evaluator.engines import image as contents
from kernel_evaluator.records.places import PACKAGE, PROBLEM_SET

REMOTE_ROOT = PurePosixPath("/opt/KernelBench")
JUDGE_TIMEOUT_S = 3600
BUILD_TIMEOUT_S = 1200
START_TIMEOUT_S = 900
NOT_SENT = ("**/__pycache__", "**/.*")
RETRIES = 1
"""Modal's own retries, of a container that crashed: `worker` never raises, so nothing else fails."""


def _mib(gib: tuple[int, int]) -> tuple[int, int]:
    return gib[0] * 1024, gib[1] * 1024


image = (
    modal.Image.from_registry(contents.base(), add_python=epoch.PYTHON)
    .apt_install(*epoch.SYSTEM_PACKAGES)
    .uv_pip_install(requirements=[str(contents.LOCK)], uv_version=epoch.UV, extra_options="--require-hashes")
    .run_commands(*contents.commands())
    .env({"PYTHONPATH": str(REMOTE_ROOT), "CXX": epoch.CXX, **contents.environment()})
    .add_local_dir(PROBLEM_SET, str(REMOTE_ROOT), ignore=[*NOT_SENT, PACKAGE.name])
    .add_local_dir(PACKAGE, str(REMOTE_ROOT / PACKAGE.name), ignore=[*NOT_SENT, PROBLEM_SET.name])
)

app = modal.App(f"kernelbench-leaderboard-{epoch.EPOCH.replace('.', '-')}", include_source=False)


@app.function(
    image=image,
    cpu=epoch.BUILD_CORES,
    memory=_mib(epoch.BUILD_GIB),
    timeout=BUILD_TIMEOUT_S,
    startup_timeout=START_TIMEOUT_S,
    retries=modal.Retries(max_retries=RETRIES, initial_delay=1.0),
    max_containers=epoch.MAX_BUILDERS,
    scaledown_window=2,
    single_use_containers=True,
    block_network=True,
    restrict_modal_access=True,
    _experimental_restrict_output=True,
)
def build_kernels(request: str) -> str:
    """Compile the kernels of a request, without a GPU."""
    from kernel_evaluator.engines.remote_build import build

    return build(request)


@app.function(
    image=image,
    gpu=f"{epoch.GPU}!",  # without the mark the platform may hand out a larger device
    cpu=epoch.JUDGE_CORES,
    memory=_mib(epoch.JUDGE_GIB),
    timeout=JUDGE_TIMEOUT_S,
    startup_timeout=START_TIMEOUT_S,
    retries=modal.Retries(max_retries=RETRIES, initial_delay=1.0),
    max_containers=epoch.MAX_GPUS,
    scaledown_window=2,
    single_use_containers=True,
    block_network=True,
    restrict_modal_access=True,
    _experimental_restrict_output=True,
)
def judge_kernels(request: str) -> str:
    """Judge the kernels of a request on one GPU."""
    from kernel_evaluator.engines.worker import judge

    return judge(request, gpu=epoch.GPU)
