"""Replies as models and their servers really write them: where the kernel is, and what was thought before it."""

import json

import pytest

from leaderboard.generate.extract import thoughts_in, without_thoughts
from leaderboard.generate.looking import Looking
from leaderboard.generate.models import OpenAIModel

CODE = (
    "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x.relu()"
)
FENCED = f"```python\n{CODE}\n```"
LOOKING = Looking(backend="cuda", precision="fp32", check_kernel=False)

REAL = {
    "deepseek-r1, raw": f"<think>\nTry:\n```python\nclass ModelNew: pass\n```\nno.\n</think>\n\n{FENCED}",
    "qwen3, the opening tag in the prompt": f"Okay, clamp.\n</think>\n\nHere:\n{FENCED}",
    "magistral": f"[THINK]Clamp it.[/THINK]{FENCED}",
    "kimi": f"◁think▷Clamp it.◁/think▷\n{FENCED}",
    "seed-oss": f"<seed:think>Clamp it.</seed:think>\n{FENCED}",
    "gemma": f"<thought>Clamp it.</thought>\n{FENCED}",
    "gpt-oss, its channels as they are": (
        "<|channel|>analysis<|message|>Clamp it.<|end|><|start|>assistant"
        f"<|channel|>final<|message|>{FENCED}<|return|>"
    ),
    "thoughts in the middle": f"Sure.\n<think>Clamp it.</think>\n{FENCED}",
    "thoughts inside the fence": f"```python\n<think>Clamp it.</think>\n{CODE}\n```",
    "no fence at all": CODE,
    "several fences, the last is handed in": f"First:\n```python\nclass ModelNew: pass\n```\nBetter:\n{FENCED}",
    "a usage example after it": f"{FENCED}\nUse it:\n```python\nfrom kernel import ModelNew\nModelNew()\n```",
    "a fence in a list": "1. Here:\n   ```python\n"
    + "\n".join(f"   {line}" for line in CODE.split("\n"))
    + "\n   ```",
    "tildes": f"~~~python\n{CODE}\n~~~",
    "windows": FENCED.replace("\n", "\r\n"),
    "xml around it": f"<answer>\n{FENCED}\n</answer>",
}


@pytest.mark.parametrize("name", REAL)
def test_the_kernel_is_found_in_what_models_write(name):
    look = LOOKING.at(REAL[name])
    assert look.code is not None, look.complaint
    assert CODE.split() == look.code.split()
    compile("if True:\n" + look.code if look.code.startswith(" ") else look.code, "kernel", "exec")


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (f"<think>\n{FENCED}", "ends before its thoughts do"),
        ("<|channel|>analysis<|message|>I think", "ends before its thoughts do"),
        (FENCED.removesuffix("\n```"), "ends inside its code block"),
        ("```python\nx = 1\n```\n" + FENCED[:-30], "ends inside its code block"),
        ("I cannot do that.", "has no fenced code block"),
        ("", "is empty"),
    ],
)
def test_what_holds_no_whole_kernel_is_said_so(reply, said):
    look = LOOKING.at(reply)
    assert (None, True) == (look.code, said in look.complaint)


@pytest.mark.parametrize(
    "name", ["deepseek-r1, raw", "magistral", "kimi", "seed-oss", "gpt-oss, its channels as they are"]
)
def test_what_was_thought_is_told_apart(name):
    thoughts = thoughts_in(REAL[name])
    assert "class ModelNew(torch" not in thoughts
    assert thoughts.startswith(("Try:", "Clamp it.")), thoughts


@pytest.mark.parametrize(
    ("message", "reasoning", "text"),
    [
        ({"content": "a", "reasoning_content": "b"}, "b", "a"),
        ({"content": "a", "reasoning": "b"}, "b", "a"),
        ({"content": [{"type": "thinking", "thinking": "b"}, {"type": "text", "text": "a"}]}, "b", "a"),
        ({"content": "a", "reasoning": None}, "", "a"),
        ({"content": None, "reasoning_content": "b"}, "b", ""),
        ({"content": None, "refusal": "I cannot."}, "", "I cannot."),
    ],
)
def test_thoughts_that_servers_tell_apart_are_kept(message, reasoning, text):
    body = {"choices": [{"message": message, "finish_reason": "stop"}], "usage": {"completion_tokens": 3}}
    reply = OpenAIModel(name="m", base_url="")._reply(json.dumps(body).encode(), 0.0)
    assert (reasoning, text, {"completion_tokens": 3}) == (reply.reasoning, reply.text, reply.usage)


def test_a_server_that_needs_a_key_says_so_before_anything_is_asked(tmp_path, monkeypatch):
    from leaderboard.generate.request import GenerationRequest

    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    asked = GenerationRequest(run_name="r", model="m", server="openai", runs=tmp_path, only="1/1")
    with pytest.raises(ValueError, match="the server openai needs a key: set OPENAI_API_KEY"):
        asked.open()


@pytest.mark.parametrize(
    "reply",
    ["Sure.\n" + "<think>" * 200_000, "```" + " " * 1_000_000 + "`", "~" * 1_000_000 + "`"],
    ids=["thoughts that open for ever", "a fence of blanks", "a fence of tildes"],
)
def test_a_reply_that_repeats_itself_is_read_at_once(reply):
    # A way that begins anew at each sign would outlast the test's own limit many times over.
    LOOKING.at(reply)

    assert "" == thoughts_in(reply)


def test_thoughts_are_left_out_wherever_they_close():
    reply = f"A <think>b</think> \nC <thought>d</thought>\n{FENCED} <think>e"

    assert without_thoughts(reply) == f"A C {FENCED} <think>e"
