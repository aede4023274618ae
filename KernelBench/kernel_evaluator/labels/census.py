"""Whose kernels ran? Reads the list of kernels that a profiled call launched, and labels it.

The list is the running process's own claim, so it makes labels and nothing else. Owns the names by which
libraries' kernels are known.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from kernel_evaluator.labels.sources import Backend, recognise

MAX_KERNELS = 60
MAX_NAME = 160
MOSTLY = 0.9
"""From this share of the device's time on, a call counts as one kind's work alone."""

_LIBRARY = re.compile(
    r"^(void |std::enable_if<.*?void>::type |_ZN?\d*)?"
    r"(at::|at2native|at6native|at_cuda_detail::|c10::|cudnn|cub::|thrust::|magma|cusparse|pytorch_flash|fmha_|flash::|"
    r"cublas|cutlass_\d|cutlass::Kernel2<|nvjet|sm\d+_xmma|(ampere|volta|turing|maxwell|hopper|sm\d+)_\w*(gemm|conv)|"
    r"gemv(2[TN]|NSP)|gemmSN|gemmk1|dot_kernel|reduce_1Block|splitKreduce|implicit_convolve|explicit_convolve|"
    r"xmma|fft\d|regular_fft|vector_fft|bn_fw|bn_bw|cunn_|nchwToNhwc|nhwcToNchw|nhwcAddPadding|op_generic_tensor|"
    r"tensorTransform|elemWiseRNNcell|persistRNN|RNN_blockPersist|LSTM_elementWise|nccl|multi_tensor_apply)"
)
_US, _COUNT = re.compile(r"\d{1,12}\.\d{3}"), re.compile(r"\d{1,9}")
_COMPILED = re.compile(r"^triton_(poi|red|per|tem|mm|for)_|^triton_\w*fused")


@dataclass(frozen=True, kw_only=True)
class Launch:
    """One kernel of a profiled call: how often it ran, and microseconds in all."""

    name: str
    count: int
    us: float


def profile(call: Callable[[], Any]) -> str:
    """Profile one call on the current CUDA device; give a line a kernel: microseconds, count, name."""
    import torch
    from torch._C._autograd import DeviceType
    from torch.profiler import ProfilerActivity

    with torch.profiler.profile(activities=[ProfilerActivity.CUDA]) as found:
        call()
        torch.cuda.synchronize()
    launches: dict[str, list[float]] = {}
    for event in found.events():
        if event.device_type == DeviceType.CUDA:
            entry = launches.setdefault(event.name[:MAX_NAME], [0.0, 0])
            entry[0] += event.device_time_total
            entry[1] += 1
    ordered = sorted(launches.items(), key=lambda item: -item[1][0])[:MAX_KERNELS]
    return "\n".join(f"{us:.3f}\t{int(count)}\t{name}" for name, (us, count) in ordered)


def parse(text: str) -> list[Launch]:
    """Read what `profile` wrote; lines that are not of its form are passed over."""
    found = []
    for line in text.splitlines()[:MAX_KERNELS]:
        parts = line.split("\t", 2)
        if len(parts) == 3 and _US.fullmatch(parts[0]) and _COUNT.fullmatch(parts[1]):
            found.append(Launch(us=float(parts[0]), count=int(parts[1]), name=parts[2][:MAX_NAME]))
    return found


def kind(name: str) -> str:
    """Tell a kernel's origin from its name: `copy`, `compiled`, `library` or `custom`."""
    if name.startswith(("Memcpy", "Memset")):
        return "copy"
    if _COMPILED.search(name):
        return "compiled"
    return "library" if _LIBRARY.search(name) else "custom"


def labels(launches: Iterable[Launch]) -> tuple[str, ...]:
    """Label a call by whose kernels took its time: custom, mixed, library or no-kernel; also compiled."""
    spent = {"custom": 0.0, "library": 0.0, "compiled": 0.0}
    for launch in launches:
        origin = kind(launch.name)
        if origin in spent:
            spent[origin] += launch.us
    total = sum(spent.values())
    if total == 0:
        return ("no-kernel",)
    share = spent["custom"] / total
    whose = "custom" if share >= MOSTLY else "library" if share <= 1 - MOSTLY else "mixed"
    return (whose, "compiled") if spent["compiled"] > (1 - MOSTLY) * total else (whose,)


def labels_from_source(source: str) -> tuple[str, ...]:
    """What the source alone can say where nothing was profiled: `library` where it writes no kernel."""
    return ("library",) if recognise(source).backends == (Backend.TORCH,) else ()
