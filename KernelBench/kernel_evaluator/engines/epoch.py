"""The benchmark epoch: all of the remote image that can change a time, pinned in one place, and its price.

A new epoch is a new image with new baselines: bump EPOCH whenever a pinned line below changes.
"""

from __future__ import annotations

from dataclasses import dataclass

EPOCH = "2026.12"

BASE_IMAGE = "nvidia/cuda:13.3.0-devel-ubuntu24.04"
BASE_DIGEST = ""
"""`sha256:…` of the base image; empty until it was looked up; the `Containerfile` asks for one."""
PYTHON = "3.12"
UV = "0.13.9"
CXX = "g++-13"
SYSTEM_PACKAGES = (CXX, "ca-certificates", "curl")


@dataclass(frozen=True, kw_only=True)
class ImagePart:
    """What pip brings: its name for people, its pin, and the backends that cannot do without.

    Headers lie at `headers` in the installed packages; they are copied to `folder`, which `variable` names.
    """

    name: str
    pin: str
    backends: tuple[str, ...] = ()
    headers: str = ""
    folder: str = ""
    variable: str = ""

    @property
    def distribution(self) -> str:
        """The package's name without extras and version."""
        return self.pin.partition("==")[0].partition("[")[0]


@dataclass(frozen=True, kw_only=True)
class Archive:
    """What pip cannot install: headers in somebody's source archive, which its checksum pins.

    All that it holds comes to `folder`; the headers are in `headers` there, which `variable` names.
    """

    name: str
    url: str
    sha256: str
    backends: tuple[str, ...]
    folder: str
    headers: str
    variable: str


PARTS = (
    ImagePart(name="PyTorch", pin="torch==2.13.0", backends=("pytorch", "c++", "cuda")),
    ImagePart(name="Triton, Gluon", pin="triton==3.7.1", backends=("triton", "gluon")),
    ImagePart(name="Helion", pin="helion==1.5.1", backends=("helion",)),
    ImagePart(name="cuTile", pin="cuda-tile==1.7.0", backends=("cutile",)),
    ImagePart(name="tileiras", pin="nvidia-cuda-tileiras==13.4.92", backends=("cutile",)),
    ImagePart(name="ptxas", pin="nvidia-cuda-nvcc==13.4.92", backends=("cutile",)),
    ImagePart(name="NVVM", pin="nvidia-nvvm==13.4.92", backends=("cutile",)),
    ImagePart(name="CuTe DSL", pin="nvidia-cutlass-dsl[cu13]==4.8.1", backends=("cute",)),
    ImagePart(name="TileLang", pin="tilelang==0.1.15", backends=("tilelang",)),
    ImagePart(
        name="CUTLASS C++",
        pin="nvidia-cutlass==4.2.0.0",
        backends=("cutlass",),
        headers="cutlass_library/source",
        folder="/opt/cutlass",
        variable="CUTLASS_PATH",
    ),
    ImagePart(
        name="MathDx",
        pin="nvidia-mathdx==25.6.0",
        backends=("mathdx",),
        headers="nvidia/mathdx",
        folder="/opt/mathdx",
        variable="MATHDX_ROOT",
    ),
    ImagePart(name="tvm-ffi", pin="apache-tvm-ffi==0.1.12", backends=("tvm-ffi",)),
    ImagePart(name="ninja", pin="ninja==1.13.2"),
    ImagePart(name="NumPy", pin="numpy==2.4.6"),
    ImagePart(name="einops", pin="einops==0.8.2"),
    ImagePart(name="transformers", pin="transformers==5.23.0"),
)
"""What pip brings, most of it what kernels are written in. tilelang needs a tvm-ffi below 0.1.13. cuTile
needs a tileiras below 13.5, and finds it only beside ptxas and NVVM of its version; tileiras takes any.
"""

ARCHIVES = (
    Archive(
        name="ThunderKittens",
        url=(
            "https://files.pythonhosted.org/packages/54/63/"
            "91696cfece5043931701957e3c37e362fdd14bf858a64a7c2fb2e83ca2dd/st_attn-0.0.6.tar.gz"
        ),
        sha256="d2b2d724716cdfd03c6afb2b40259fe5470b1889853fdffa1260453a87618b47",
        backends=("thunderkittens",),
        folder="/opt/thunderkittens",
        headers="tk",
        variable="THUNDERKITTENS_ROOT",
    ),
)
"""ThunderKittens has no releases. The source of st_attn, a package on PyPI, holds it as of 2025, under its
own licence; nothing of st_attn itself is built."""

BACKENDS = tuple(dict.fromkeys(name for part in (*PARTS, *ARCHIVES) for name in part.backends))
"""What a kernel of the board can be written in."""

GPU = "H100"

MAX_GPUS = 10
"""Containers with a GPU at once."""
MAX_BUILDERS = 32
"""Containers that compile at once."""
KERNELS_PER_CALL = 8
"""Kernels of one submission that share a container: its start is paid once, a lost one costs these."""
ROUNDS = 3
"""How often a kernel is sent before it is an infrastructure error; alone from the second time on."""

JUDGE_CORES = (8.0, 16.0)
JUDGE_GIB = (32, 96)
BUILD_CORES = (4.0, 8.0)
BUILD_GIB = (8, 24)
"""What a container has at least, and what it may take: processor cores, and memory in GiB."""

LOOK_S = 5.0
"""Seconds between two looks at what an evaluation costs."""
ENDING_S = 30.0
"""Seconds that containers may go on after they were told to stop. Guessed high."""
MAX_USD = 60.0
"""What an evaluation may cost where nobody says otherwise."""


@dataclass(frozen=True, kw_only=True)
class Price:
    """Dollars for a second of one GPU, one core and one GiB, with the day they were looked up and where."""

    usd_per_second: float
    usd_per_core_second: float
    usd_per_gib_second: float
    as_of: str
    source: str


_PRICES = {
    ("modal", "H100"): Price(
        usd_per_second=0.001097,
        usd_per_core_second=0.0000131,
        usd_per_gib_second=0.00000222,
        as_of="2026-11-21",
        source="https://modal.com/pricing",
    ),
}


def price_of(engine: str, gpu: str) -> Price | None:
    """Give the prices on an engine; None where nobody sends a bill."""
    return _PRICES.get((engine, gpu))


def unserved(engine: str, gpu: str) -> str:
    """Say why nothing may be judged on an engine for a board of that GPU; empty where it may.

    An engine that sends bills needs a price: without one no cap holds.
    """
    if engine in {paid for paid, _ in _PRICES} and price_of(engine, gpu) is None:
        return f"{engine} sends a bill, and no price of {gpu} is known: add it to _PRICES in engines/epoch.py"
    if engine == "modal" and gpu != GPU:
        return f"in the epoch {EPOCH} {engine} judges on {GPU} alone, not on {gpu}"
    return ""


def judging_usd_per_second(price: Price) -> float:
    """The most that a second of a container that judges can cost: all the cores and memory it may take."""
    host = JUDGE_CORES[1] * price.usd_per_core_second + JUDGE_GIB[1] * price.usd_per_gib_second
    return price.usd_per_second + host


def building_usd_per_second(price: Price) -> float:
    """The most that a second of a container that compiles can cost."""
    return BUILD_CORES[1] * price.usd_per_core_second + BUILD_GIB[1] * price.usd_per_gib_second


def most_usd_between_looks(price: Price) -> float:
    """The most that can be spent from one look until all containers have ended, with all of them busy."""
    a_second = MAX_GPUS * judging_usd_per_second(price) + MAX_BUILDERS * building_usd_per_second(price)
    return a_second * (LOOK_S + ENDING_S)
