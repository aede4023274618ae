"""Samples as data to train on: conversations, pairs, trajectories. Pure; each gives rows of one schema.

Messages are what the model was sent, in OpenAI's form; what it thought stands before its answer between
`<think>` tags, as most chat templates have it.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernel_evaluator.records.keys import KernelKey

from leaderboard.export.samples import Sample
from leaderboard.export.thinking import Thinking
from leaderboard.generate.extract import without_thoughts

Line = dict[str, Any]


@dataclass(kw_only=True)
class Data:
    """Rows for a table, and how many samples were left out for which reason."""

    lines: list[Line] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)


def conversations(samples: Sequence[Sample], thinking: Thinking, min_speedup: float = 0.0) -> Data:
    """Give one conversation a kernel that is correct and at least so fast: the prompt, and the answer.

    The same kernel for the same problem is taken once.
    """
    data, seen = Data(), set()
    for sample in samples:
        thoughts, why = thinking.of(sample.reply)
        same = (_problem(sample.reply.key), sample.reply.kernel_sha256)
        reason = _unfit(sample, min_speedup) or why or ("the same kernel again" if same in seen else "")
        if reason:
            data.left_out[reason] += 1
            continue
        seen.add(same)
        messages = [*_plain(sample.reply.messages), _answer(sample, thoughts)]
        data.lines.append({**_facts(sample), "messages": messages})
    return data


def preferences(samples: Sequence[Sample], thinking: Thinking, pairs: int = 4) -> Data:
    """Give pairs of answers to the same prompt of which one is worth clearly more than the other.

    The best is held against the worst, the second against the second to last, and so on, at most so many a
    prompt. Of two correct kernels the faster is preferred only where their intervals lie apart. The same
    kernel for the same prompt is taken once.
    """
    data = Data()
    by_prompt: dict[str, dict[str, Sample]] = defaultdict(dict)
    for sample in samples:
        group = by_prompt[json.dumps(_plain(sample.reply.messages))]
        if sample.reward is None:
            data.left_out[_outcome(sample)] += 1
        elif sample.reply.kernel_sha256 in group:
            data.left_out["the same kernel again"] += 1
        else:
            group[sample.reply.kernel_sha256] = sample
    for group in by_prompt.values():
        ordered = sorted(group.values(), key=lambda sample: -sample.value)
        found = 0
        for better, worse in zip(ordered, reversed(ordered), strict=True):
            if found == pairs or better.value <= worse.value:
                break
            if not _is_clear(better, worse):
                data.left_out["intervals overlap"] += 1
                continue
            found += 1
            data.lines.append(_pair(better, worse, thinking))
    return data


def trajectories(samples: Sequence[Sample], thinking: Thinking) -> Data:
    """Give every sample's turns in order, each with its reward: what was asked, said and found.

    Replies that were asked for again within a turn are turns of their own, without a reward.
    """
    data = Data()
    by_key: dict[tuple[Path, KernelKey], list[Sample]] = defaultdict(list)
    for sample in samples:
        by_key[sample.folder, sample.reply.key].append(sample)
    for (folder, key), turns in by_key.items():
        turns.sort(key=lambda sample: (sample.reply.turn, sample.reply.attempt))
        values = [sample.value for sample in turns if sample.reward is not None]
        if not values:
            data.left_out[_outcome(turns[-1])] += 1
            continue
        data.lines.append(
            {
                "run": folder.name,
                "key": str(key),
                "model": turns[0].reply.model,
                "prompt": _plain(turns[0].reply.messages),
                "turns": [_turn(sample, thinking) for sample in turns],
                "best_reward": max(values),
                "last_reward": values[-1],
            }
        )
    return data


def _unfit(sample: Sample, min_speedup: float) -> str:
    if sample.row is None or not sample.row.is_correct:
        return _outcome(sample)
    if min_speedup and (sample.row.speedup or 0.0) < min_speedup:
        return "not fast enough"
    return ""


def _outcome(sample: Sample) -> str:
    if sample.row is not None:
        return sample.row.status.value
    return "not judged" if sample.reply.code else "no kernel"


def _is_clear(better: Sample, worse: Sample) -> bool:
    a, b = better.row, worse.row
    if a is None or b is None or a.speedup_ci95 is None or b.speedup_ci95 is None:
        return True
    return a.speedup_ci95[0] > b.speedup_ci95[1]


def _pair(better: Sample, worse: Sample, thinking: Thinking) -> Line:
    return {
        "level": better.reply.key.level,
        "problem_id": better.reply.key.problem_id,
        "prompt": _plain(better.reply.messages),
        "chosen": [_answer(better, thinking.of(better.reply)[0])],
        "rejected": [_answer(worse, thinking.of(worse.reply)[0])],
        "chosen_reward": better.value,
        "rejected_reward": worse.value,
        "chosen_status": _status(better),
        "rejected_status": _status(worse),
    }


def _turn(sample: Sample, thinking: Thinking) -> Line:
    return {
        "turn": sample.reply.turn,
        "attempt": sample.reply.attempt,
        "feedback": str(sample.reply.messages[-1].get("content", ""))
        if len(sample.reply.messages) > 1
        else "",
        "reasoning": thinking.of(sample.reply)[0],
        "reply": without_thoughts(sample.reply.text),
        "code": sample.reply.code or "",
        "status": _status(sample),
        "speedup": sample.row.speedup if sample.row else None,
        "reward": sample.reward.value if sample.reward else None,
    }


def _facts(sample: Sample) -> Line:
    row = sample.row
    return {
        "run": sample.run,
        "key": str(sample.reply.key),
        "model": sample.reply.model,
        "status": _status(sample),
        "speedup": row.speedup if row else None,
        "reward": sample.value,
        "kernel_sha256": sample.reply.kernel_sha256,
    }


def _status(sample: Sample) -> str:
    return sample.row.status.value if sample.row else ""


def _answer(sample: Sample, thoughts: str) -> Line:
    said = without_thoughts(sample.reply.text).strip()
    return {"role": "assistant", "content": f"<think>\n{thoughts}\n</think>\n\n{said}" if thoughts else said}


def _plain(messages: Sequence[Mapping[str, Any]]) -> list[Line]:
    """Give a prompt, without what the model thought of earlier answers: that has passed no filter."""
    return [{"role": str(each["role"]), "content": _without_own_thoughts(each)} for each in messages]


def _without_own_thoughts(message: Mapping[str, Any]) -> str:
    content = str(message["content"])
    return without_thoughts(content).strip() if message["role"] == "assistant" else content


def _problem(key: KernelKey) -> tuple[int, int]:
    return key.level, key.problem_id
