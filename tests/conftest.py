"""What every test shares: the browser switch, one thread for torch, no deadlines, and where the repository is."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import ssl
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest
import typer.testing
from hypothesis import HealthCheck, settings
from kernel_evaluator.walls import sandbox

from leaderboard.doctor import BROWSERS

# A shell that starts the tests in the background has all that they start ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)

os.environ.setdefault("OMP_NUM_THREADS", "1")

# Clones need no examples of hooks: what takes long in them is to make files.
os.environ["GIT_TEMPLATE_DIR"] = ""

gc.disable()  # while tests are found: what is kept for each is looked through again and again

# How long an example takes says more of the machine than of what is tested.
settings.register_profile(
    "any machine", settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")

# A client reads the certificates of all authorities when it is made; hundreds are, and none of them needs any.
ssl.create_default_context = cache(ssl.create_default_context)

# A process builds its commands once; here each call of one would build all of them anew.
typer.testing._get_command = cache(typer.testing._get_command)

LONG_FILES = (
    "test_evaluator.py",
    "test_inputs.py",  # keeps to one core while the evaluator beside it times kernels
    "test_github_end_to_end.py",
    "test_redteam.py",
    "test_slurm.py",
    "test_site_quality.py",
    "test_site_browser.py",
    "test_seed_scripts.py",
    "test_build.py",
    "test_ray.py",
    "test_rehearsal.py",
    "test_limits_at_every_call.py",
    "test_site_pages.py",
    "test_serve.py",
    "test_installed.py",
    "test_evaluator_faults.py",
    "test_slow_kernels.py",
    "test_demo.py",
    "test_github_cpu_engine.py",
    "test_killed.py",
)
"""They begin first: whichever came last would keep one worker busy while the others have nothing to do."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes long. Skip what this machine cannot run, and say what would make it run."""
    places = {name: place for place, name in enumerate(LONG_FILES)}
    items.sort(key=lambda item: places.get(item.path.name, len(places)))
    reasons = {"browser": _no_browser(), "gpu": _no_gpu(items)}
    for item in items:
        for marker, reason in reasons.items():
            if reason and item.get_closest_marker(marker):
                item.add_marker(pytest.mark.skip(reason=reason))


def pytest_collection_finish() -> None:
    """Collect garbage again; not among what is there by now, and not every 700 objects, since torch makes many."""
    gc.freeze()
    gc.set_threshold(50_000)
    gc.enable()


@pytest.fixture(scope="session")
def repository() -> Path:
    return Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session", autouse=True)
def nothing_left_running() -> Iterator[None]:
    """What the tests started has ended, or ends with this process: what goes on slows all that comes after."""
    mark = os.environ["KERNELBENCH_TESTS"] = str(uuid.uuid4())
    yield
    deadline = time.monotonic() + 30
    while (left := _outlives_us(mark)) and time.monotonic() < deadline:
        time.sleep(0.2)
    for pid in left:
        with suppress(ProcessLookupError):
            if (group := os.getpgid(pid)) != os.getpgid(0):
                os.killpg(group, signal.SIGKILL)
    assert not left, f"still running: {', '.join(left.values())}"


def _outlives_us(mark: str) -> dict[int, str]:
    """The processes with such a word in their environment that are not below this one, with their commands."""
    found, ours = {}, sandbox.descendants(os.getpid())
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if int(folder.name) not in ours and mark.encode() in (folder / "environ").read_bytes():
                found[int(folder.name)] = (folder / "cmdline").read_text().replace("\0", " ")[:200]
    return found


def _no_browser() -> str:
    found = any(shutil.which(name) for name in BROWSERS)
    return "" if found else "no headless browser: apt-get install chromium"


def _no_gpu(items: list[pytest.Item]) -> str:
    if not any(item.get_closest_marker("gpu") for item in items):
        return ""
    import torch

    return "" if torch.cuda.is_available() else "no CUDA device on this machine"
