"""Reads the kernels that attack what runs them, and honest ones to be judged beside them."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

CORPUS = Path(__file__).with_suffix(".toml")
HONEST = "honest"
FRAME = '''
import ctypes, fcntl, json, mmap, os, signal, socket, struct, subprocess, sys, threading, time
import torch

libc = ctypes.CDLL(None, use_errno=True)


class Escaped(BaseException):
    pass


def refused(call, *values):
    """Make a call that must fail; its error ends the kernel."""
    try:
        answer = call(*values)
    except OSError as error:
        raise RuntimeError(f"refused: {{error}}") from None
    if answer == -1:
        raise RuntimeError(f"refused: {{os.strerror(ctypes.get_errno())}}")
    raise Escaped(call)


{head}


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        {init}

    def forward(self, x):
        {forward}
        return torch.relu(x)
'''


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """One kernel: what it does, in words, and the statuses that it may get."""

    kind: str
    does: str
    expect: tuple[str, ...]
    source: str

    @property
    def is_honest(self) -> bool:
        """Whether it does what any kernel may."""
        return self.kind == HONEST


def read() -> list[Kernel]:
    """Read all kernels, in the order of the file."""
    found = []
    for each in tomllib.loads(CORPUS.read_text("utf-8"))["kernel"]:
        init, forward = (
            each.get(name, "pass").strip().replace("\n", "\n        ") for name in ("init", "forward")
        )
        source = FRAME.format(head=each.get("head", "").strip(), init=init, forward=forward)
        facts = {name: each[name] for name in ("kind", "does")}
        found.append(Kernel(**facts, expect=tuple(each["expect"]), source=source))
    return found
