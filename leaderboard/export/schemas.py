"""What the columns of exported tables are: a type and a meaning for each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Columns = Mapping[str, tuple[str, str]]
"""Each column's type, by the names of `_types`, and what it means."""

_SAMPLE: Columns = {
    "run": ("text", "the run that drew it"),
    "key": ("text", "level, problem and sample"),
    "model": ("text", "the model, as its server knows it"),
}

CONVERSATIONS: Columns = {
    **_SAMPLE,
    "status": ("text", "the verdict on the kernel"),
    "speedup": ("number", "over eager PyTorch, measured beside it; empty where it was not timed"),
    "reward": ("number", "as leaderboard/reward.py shapes it"),
    "kernel_sha256": ("text", "digest of the kernel"),
    "messages": ("messages", "the conversation: what was asked, and the answer"),
}

PREFERENCES: Columns = {
    "level": ("integer", "of the problem"),
    "problem_id": ("integer", "of the problem"),
    "prompt": ("messages", "what both answers answer"),
    "chosen": ("messages", "the better answer"),
    "rejected": ("messages", "the worse one"),
    "chosen_reward": ("number", "as leaderboard/reward.py shapes it"),
    "rejected_reward": ("number", "as leaderboard/reward.py shapes it"),
    "chosen_status": ("text", "the verdict on the better kernel"),
    "rejected_status": ("text", "the verdict on the worse one"),
}

TRAJECTORIES: Columns = {
    **_SAMPLE,
    "prompt": ("messages", "the first request"),
    "turns": ("turns", "each reply in order, with what was found of it and its reward"),
    "best_reward": ("number", "of the best turn"),
    "last_reward": ("number", "of the last turn that was judged"),
}

KERNELS: Columns = {
    "entry": ("text", "the entry's id"),
    "gpu": ("text", "the board: a GPU's model"),
    "precision": ("text", "and its precision: fp32 or bf16"),
    "sizes": ("text", "sizes of the problems: full or reduced"),
    "level": ("integer", "of the problem"),
    "problem_id": ("integer", "of the problem"),
    "sample": ("integer", "0 is what ranks"),
    "status": ("text", "the verdict"),
    "speedup": ("number", "over eager PyTorch, measured beside it"),
    "speedup_low": ("number", "lower end of this judging's 95 % interval"),
    "speedup_high": ("number", "its upper end"),
    "runtime_ms": ("number", "median of a call"),
    "reference_ms": ("number", "median of a call of eager PyTorch"),
    "worst_error": ("number", "as a share of the tolerance"),
    "labels": ("texts", "what was seen of it: custom, library, …"),
    "failure": ("text", "the failure's name"),
    "message": ("text", "and what it says"),
    "evidence": ("text", "the counter-example or violation, as JSON"),
    "ranked": ("flag", "whether the problem counts"),
    "kernel_sha256": ("text", "digest of the code"),
    "problem_sha256": ("text", "digest of the problem as it ran"),
    "evaluator_sha256": ("text", "digest of the evaluator that judged it"),
    "finished_at": ("text", "when"),
    "device": ("text", "where: the device's name"),
    "driver": ("text", "its driver"),
    "torch": ("text", "PyTorch's version"),
    "isolation": ("texts", "the walls that stood around the kernel"),
    "code": ("text", "the kernel, under its entry's licence"),
}

ENTRIES: Columns = {
    "entry": ("text", "the entry's id"),
    "gpu": ("text", "the board: a GPU's model"),
    "precision": ("text", "and its precision: fp32 or bf16"),
    "display_name": ("text", "its name on the board"),
    "organization": ("text", "who sent it"),
    "model": ("text", "the model that wrote it, as it says itself"),
    "license": ("text", "the kernels' licence"),
    "baseline": ("flag", "whether it is a maintainers' baseline"),
    "kernels": ("integer", "kernels in it"),
    "submission_sha256": ("text", "digest of the entry's file"),
    "revision": ("integer", "of the result"),
    "finished_at": ("text", "when the result was finished"),
}


def arrow_schema(columns: Columns, metadata: Mapping[str, str]) -> Any:
    """Give the columns as a schema of Arrow, each with its meaning."""
    import pyarrow as pa

    types = _types()
    fields = [
        pa.field(name, types[kind], metadata={"description": what}) for name, (kind, what) in columns.items()
    ]
    return pa.schema(fields, metadata=dict(metadata))


def _types() -> dict[str, Any]:
    import pyarrow as pa

    message = pa.struct([("role", pa.string()), ("content", pa.string())])
    turn = pa.struct(
        [
            ("turn", pa.int32()),
            ("attempt", pa.int32()),
            ("feedback", pa.string()),
            ("reasoning", pa.string()),
            ("reply", pa.string()),
            ("code", pa.string()),
            ("status", pa.string()),
            ("speedup", pa.float64()),
            ("reward", pa.float64()),
        ]
    )
    return {
        "text": pa.string(),
        "texts": pa.list_(pa.string()),
        "number": pa.float64(),
        "integer": pa.int32(),
        "flag": pa.bool_(),
        "messages": pa.list_(message),
        "turns": pa.list_(turn),
    }
