"""The certificates: which problems can be ranked in a precision, as `kbl certify` found and wrote it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kernel_evaluator.records.places import PROBLEM_SET

CERTIFICATES = PROBLEM_SET / "certificates.json"

DOES_NOT_RUN = "the reference does not run"
"""How the evidence begins where the reference itself raises: nothing can be judged there."""


def path_for(precision: str) -> Path:
    """The file that says which problems are ranked in a precision."""
    return CERTIFICATES if precision == "fp32" else CERTIFICATES.with_name(f"certificates-{precision}.json")


def read(path: Path = CERTIFICATES) -> dict[str, Any]:
    """Read the entries of a file of certificates; empty where there is none."""
    if not path.exists():
        return {}
    problems: dict[str, Any] = json.loads(path.read_text("utf-8"))["problems"]
    return problems


def not_running(precision: str) -> frozenset[str]:
    """Problems, such as `"3_33"`, whose reference is known not to run in a precision."""
    certified = read(path_for(precision)).items()
    return frozenset(key for key, facts in certified if facts.get("evidence", "").startswith(DOES_NOT_RUN))
