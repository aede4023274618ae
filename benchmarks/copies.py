"""Kernels that are copies of their reference."""

from __future__ import annotations

import re


def as_kernel(source: str) -> str:
    """A reference's source as that of a kernel."""
    return re.sub(r"\bModel\b", "ModelNew", source)
