"""Finds code in a model's answer. Reads text only; never runs it."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[ \t]*([^\n`]*)$")
_INLINE = re.compile(r"```(.*?)```", re.DOTALL)
_LANGUAGE = re.compile(r"^(?:python|cpp)\b[ \t]*\n?")


@dataclass(frozen=True, kw_only=True)
class Block:
    """One fenced block: its code without fence and language tag. Not `closed`: the answer ends inside."""

    code: str
    closed: bool = True


def code_blocks(answer: str) -> list[Block]:
    """List the fenced blocks of an answer in order."""
    blocks: list[Block] = []
    fence: str | None = None
    lines: list[str] = []
    for line in answer.splitlines():
        match = _FENCE.match(line)
        if fence is None and match:
            fence, lines = match[1], []
        elif fence is not None and match and match[1].startswith(fence) and not match[2].strip():
            blocks.append(Block(code="\n".join(lines).strip()))
            fence = None
        elif fence is not None:
            lines.append(line)
    if fence is not None:
        blocks.append(Block(code="\n".join(lines).strip(), closed=False))
    return blocks or [Block(code=_LANGUAGE.sub("", text.strip()).strip()) for text in _INLINE.findall(answer)]


def first_block(answer: str) -> str | None:
    """Give the first block, as KernelBench does; None where there is none."""
    blocks = code_blocks(answer)
    return blocks[0].code if blocks else None


def last_block(answer: str) -> str | None:
    """Give the last block; None where there is none."""
    blocks = code_blocks(answer)
    return blocks[-1].code if blocks else None


def all_blocks(answer: str) -> str | None:
    """Give every block, joined; None where there is none."""
    blocks = code_blocks(answer)
    return "\n".join(block.code for block in blocks) if blocks else None


def kernel_block(answer: str) -> Block | None:
    """Choose the block that is the kernel: the last one that defines ModelNew, else the first one.

    Models think aloud and correct themselves: what defines ModelNew last is what they hand in. With one
    block this is KernelBench's rule. None where there is no block.
    """
    blocks = code_blocks(answer)
    defining = [block for block in blocks if _defines_model(block.code)]
    return defining[-1] if defining else next(iter(blocks), None)


def _defines_model(code: str) -> bool:
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(isinstance(node, ast.ClassDef) and node.name == "ModelNew" for node in tree.body)
