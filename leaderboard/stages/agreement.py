"""Whether two rows of one kernel agree, and where not, in what way. Pure."""

from __future__ import annotations

from kernel_evaluator.records.rows import Row
from kernel_evaluator.scores import intervals_apart, published_interval

EQUIVALENT = 0.15
"""Two rows agree where their ratio is this near to one beyond doubt, by published intervals."""


def difference(before: Row, after: Row) -> str:
    """Say in what way two rows of one kernel disagree; empty where they do not."""
    if other := other_work(before, after.kernel_sha256, after.problem_sha256):
        return other
    if before.is_correct != after.is_correct:
        return f"was {before.status}, is {after.status}"
    return _other_speed(before, after) if before.is_correct else ""


def other_work(row: Row, kernel_sha256: str, problem_sha256: str) -> str:
    """Say whether these are not the kernel and the problem that a row is of; empty where they are."""
    if row.kernel_sha256 != kernel_sha256:
        return "the submission's source is not the one that was judged"
    return "" if row.problem_sha256 == problem_sha256 else "the problem is not the one that was judged"


def _other_speed(before: Row, after: Row) -> str:
    """Agreement is shown, not presumed: wide intervals meet whatever is true, and so agree with nothing."""
    one, other = published_interval(before.speedup_ci95), published_interval(after.speedup_ci95)
    if not (one and other):
        return ""
    least, most = other[0] / one[1], other[1] / one[0]
    if 1 / (1 + EQUIVALENT) <= least and most <= 1 + EQUIVALENT:
        return ""
    said = f"speedup was {before.speedup:.3f} ({one[0]:.3g}-{one[1]:.3g}), is {after.speedup:.3f}"
    if intervals_apart(one, other) > 0:
        return said
    return f"{said} ({other[0]:.3g}-{other[1]:.3g}): too wide to agree within {EQUIVALENT:.0%}"
