"""Finds code in a model's answer. Reads text only; never runs it."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from leaderboard.checks.kernels import CLASS_NAME, bound_names
from leaderboard.texts.python_source import parsed

_FENCE = re.compile(r"^([ \t]*+)(`{3,}+|~{3,}+)[ \t]*+([^\n`]*+)$")
_INLINE = re.compile(r"```(.*?)```", re.DOTALL)
_TAG = r"(?:think|thinking|thought|thoughts|reasoning|seed:think)"
_OPENING = rf"(?:<{_TAG}>|\[THINK\]|◁think▷)"
_CLOSING = rf"(?:</{_TAG}>|\[/THINK\]|◁/think▷)"
_THOUGHTS_BEGIN = re.compile(rf"\s*{_OPENING}")
_THOUGHTS_OPEN = re.compile(_OPENING)
_THOUGHTS_END = re.compile(_CLOSING)
_THOUGHTS_CLOSED = re.compile(rf"{_CLOSING}[ \t]*\n?")
_THOUGHTS = re.compile(rf"{_OPENING}.*?{_THOUGHTS_CLOSED.pattern}", re.DOTALL)
_LAST_CHANNEL = "<|channel|>final<|message|>"
"""Before what a model says to the user where its channels come as they are, as gpt-oss writes them."""
_MARKS = re.compile(rf"{_OPENING}|{_CLOSING}|<\|[a-z]+\|>(?:analysis|assistant|final)?")
_CHANNEL_END = re.compile(r"<\|(?:return|end)\|>\s*$")
_LANGUAGE = re.compile(r"^(?:python|cpp)\b[ \t]*\n?")


def without_thoughts(answer: str) -> str:
    """Give what a model said after thinking aloud between tags: nothing where it never came to an end.

    The opening tag may be missing, since some servers put it into the prompt.
    """
    if _LAST_CHANNEL in answer:
        answer = _CHANNEL_END.sub("", answer.rpartition(_LAST_CHANNEL)[2])
    elif answer.lstrip().startswith("<|channel|>"):
        return ""
    end, opening = _THOUGHTS_END.search(answer), _THOUGHTS_OPEN.search(answer)
    if end and (_THOUGHTS_BEGIN.match(answer) or opening is None or opening.start() > end.start()):
        return answer[end.end() :]
    return "" if _THOUGHTS_BEGIN.match(answer) else _without_closed(answer)


@dataclass(frozen=True, kw_only=True)
class Block:
    """One fenced block: its code without fence and language tag. Not `closed`: the answer ends inside."""

    code: str
    closed: bool = True


def code_blocks(answer: str) -> list[Block]:
    """List the fenced blocks of an answer in order."""
    blocks: list[Block] = []
    fence: str | None = None
    indent = ""
    lines: list[str] = []
    for line in answer.replace("\r\n", "\n").split("\n"):
        match = _FENCE.match(line)
        if fence is None and match:
            indent, fence, lines = match[1], match[2], []
        elif fence is not None and match and match[2].startswith(fence) and not match[3].strip():
            blocks.append(Block(code="\n".join(lines).strip()))
            fence = None
        elif fence is not None:
            lines.append(line.removeprefix(indent))
    if fence is not None:
        blocks.append(Block(code="\n".join(lines).strip(), closed=False))
    return blocks or [Block(code=_LANGUAGE.sub("", text.strip()).strip()) for text in _INLINE.findall(answer)]


def kernel_block(answer: str) -> Block | None:
    """Choose the block that is the kernel: the last that binds ModelNew, else one cut off, else the first.

    Models think aloud and correct themselves: what binds ModelNew last is what they hand in. An import counts
    where nothing else binds it, as it mostly shows how to use another block. With one block this is
    KernelBench's rule. An answer without any block is one itself where it binds ModelNew; else None is given.
    """
    blocks = code_blocks(answer)
    if not blocks and _binds_model(answer.strip(), by_import=False):
        return Block(code=answer.strip())
    making = [block for block in blocks if _binds_model(block.code, by_import=False)]
    binding = making or [block for block in blocks if _binds_model(block.code, by_import=True)]
    cut_off = [block for block in blocks if block.code and not block.closed]
    return next(iter([*binding[-1:], *cut_off, *blocks]), None)


def _binds_model(code: str, *, by_import: bool) -> bool:
    try:
        tree = parsed(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    if not by_import:
        tree.body = [node for node in tree.body if not isinstance(node, ast.Import | ast.ImportFrom)]
    return CLASS_NAME in bound_names(tree)


def thoughts_in(answer: str) -> str:
    """Give what a model thought aloud between tags, or in a channel of its own; nothing where it did not."""
    said = without_thoughts(answer)
    before = answer[: answer.rfind(said)] if said and said in answer else "" if said else answer
    return _MARKS.sub("", before or "".join(_THOUGHTS.findall(answer, 0, _closed(answer)))).strip()


def _without_closed(answer: str) -> str:
    end = _closed(answer)
    return _THOUGHTS.sub("", answer[:end]) + answer[end:]


def _closed(answer: str) -> int:
    """Say where the last thoughts end. Behind it each opening tag would be looked for an end in vain.

    Models repeat themselves until their tokens are used up: ten thousand such tags would take minutes.
    """
    return max((match.end() for match in _THOUGHTS_CLOSED.finditer(answer)), default=0)
