"""Talks to language models: any OpenAI-compatible server directly, others through LiteLLM where installed.

Owns single requests, and what they cost. Never repeats one, and never looks into an answer.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, cast

from kernel_evaluator.machine.extras import require

from leaderboard.generate.completions import Completion, CompletionError, read_completion

if TYPE_CHECKING:
    import httpx

Message = Mapping[str, str]
"""`{"role": "user", "content": "…"}`."""

MAX_ANSWER_BYTES = 32 * 1024 * 1024
_TRANSIENT_STATUSES = frozenset({408, 409, 425, 429})
_ALL_IN_VAIN = frozenset({401, 402, 403, 404, 405})
_NO_MONEY = b"insufficient_quota"
"""OpenAI's word, with 429, for an account that is used up: waiting does not help."""

SERVERS: Mapping[str, tuple[str, str]] = {
    "openai": ("https://api.openai.com/v1", "OPENAI_API_KEY"),
    "anthropic": ("https://api.anthropic.com/v1", "ANTHROPIC_API_KEY"),
    "google": ("https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY"),
    "deepseek": ("https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    "together": ("https://api.together.xyz/v1", "TOGETHER_API_KEY"),
    "fireworks": ("https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
    "openrouter": ("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    "groq": ("https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    "xai": ("https://api.x.ai/v1", "XAI_API_KEY"),
    "local": ("http://localhost:8000/v1", "LOCAL_API_KEY"),
    "sglang": ("http://localhost:30000/v1", "SGLANG_API_KEY"),
    "vllm": ("http://localhost:8000/v1", "VLLM_API_KEY"),
}
"""Servers by the names of KernelBench's `server_type`: base URL, and the variable that holds the key."""


PREFIXES: Mapping[str, str] = {
    "fireworks": "fireworks_ai/",
    "google": "gemini/",
    "together": "together_ai/",
}
"""What LiteLLM, and so KernelBench, puts before a model's name, where that is not the server's own name."""


def plain_name(model: str, server: str) -> str:
    """Give a model's name as its server knows it: KernelBench writes `gemini/gemini-2.5-flash`."""
    return model.removeprefix(PREFIXES.get(server, f"{server}/")) if server in SERVERS else model


class ModelError(Exception):
    """The model cannot be asked for this sample. `fatal` where no other sample would fare better.

    `refused` where the same request would be refused again, whenever it is sent.
    """

    def __init__(self, message: str, *, fatal: bool = False, refused: bool = False) -> None:
        self.fatal = fatal
        self.refused = refused
        super().__init__(message)


class TransientError(Exception):
    """The server may answer if asked again, after `retry_after_s` where it said so."""

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(message)


class Model(Protocol):
    """Anything that answers messages once. Raises TransientError or ModelError."""

    def complete(self, messages: Sequence[Message]) -> Completion:
        """Ask once and give the answer."""
        ...


@dataclass(frozen=True, kw_only=True)
class TokenPrice:
    """US dollars a million tokens."""

    prompt: float
    completion: float

    def cost_usd(self, prompt_tokens: int, completion_tokens: int) -> float:
        """Give what a request of this size costs."""
        return (prompt_tokens * self.prompt + completion_tokens * self.completion) / 1e6


@dataclass(frozen=True, kw_only=True)
class OpenAIModel:
    """A model behind an OpenAI-compatible server. `parameters` go into every request as they are."""

    name: str
    base_url: str
    api_key: str = field(default="", repr=False)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    timeout_s: float = 600.0
    price: TokenPrice | None = None

    def complete(self, messages: Sequence[Message]) -> Completion:
        """Ask once; the whole answer must arrive within `timeout_s`."""
        body = {"model": self.name, "messages": list(messages), **self.parameters}
        started = time.monotonic()
        status, headers, content = self._post(body, started + self.timeout_s)
        if status != 200:
            raise _status_error(status, headers, content)
        return self._reply(content, time.monotonic() - started)

    @cached_property
    def _client(self) -> httpx.Client:
        """One client for all threads: a new one for each request would load every certificate again."""
        import httpx

        return httpx.Client(timeout=self.timeout_s, limits=httpx.Limits(max_connections=None))

    def _post(self, body: Mapping[str, Any], deadline: float) -> tuple[int, Mapping[str, str], bytes]:
        import httpx

        headers = {"Accept-Encoding": "identity"}  # a kilobyte can be unpacked to any size, all of it at once
        if self.api_key:
            headers["Authorization"] = f"Bearer {self.api_key}"
        url = f"{self.base_url.rstrip('/')}/chat/completions"
        try:
            request = self._client.build_request("POST", url, json=body, headers=headers)
        except httpx.InvalidURL as error:
            raise ModelError(f"the base URL {self.base_url!r} is none: {error}", fatal=True) from error
        content = bytearray()
        try:
            with closing(self._client.send(request, stream=True)) as response:
                for part in response.iter_raw():
                    content += part
                    if time.monotonic() > deadline:
                        raise TransientError(f"the answer was not complete after {self.timeout_s:g} s")
                    if len(content) > MAX_ANSWER_BYTES:
                        raise TransientError(f"the answer is larger than {MAX_ANSWER_BYTES} bytes")
                return response.status_code, response.headers, bytes(content)
        # The last two are of a redirect: httpx reads where it leads, though it is never followed.
        except (httpx.RequestError, httpx.InvalidURL, UnicodeError) as error:
            raise TransientError(f"{type(error).__name__}: {error}") from error

    def _reply(self, content: bytes, seconds: float) -> Completion:
        try:
            found = read_completion(content)
        except CompletionError as error:
            raise TransientError(f"the answer is no chat completion: {error}") from error
        cost_usd = found.cost_usd
        if self.price:
            cost_usd = self.price.cost_usd(found.prompt_tokens, found.completion_tokens)
        return replace(found, cost_usd=cost_usd, seconds=seconds)


@dataclass(frozen=True, kw_only=True)
class LiteLLMModel:
    """A model that LiteLLM knows by name, for servers that do not speak OpenAI's protocol."""

    name: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    timeout_s: float = 600.0
    price: TokenPrice | None = None

    def complete(self, messages: Sequence[Message]) -> Completion:
        """Ask once."""
        litellm, openai = import_litellm("a model without --server or --base-url")
        started = time.monotonic()
        try:
            answer = litellm.completion(
                model=self.name,
                messages=list(messages),
                timeout=self.timeout_s,
                num_retries=0,
                **self.parameters,
            )
        except openai.APIError as error:  # the base of every error that LiteLLM raises
            raise _litellm_error(error) from error
        usage = answer.usage
        if self.price:
            cost: float | None = self.price.cost_usd(usage.prompt_tokens, usage.completion_tokens)
        else:
            cost = cast(dict[str, Any], getattr(answer, "_hidden_params", {})).get("response_cost")
        return Completion(
            text=answer.choices[0].message.content or "",
            reasoning=str(getattr(answer.choices[0].message, "reasoning_content", None) or ""),
            usage=usage.model_dump(mode="json") if hasattr(usage, "model_dump") else {},
            finish_reason=answer.choices[0].finish_reason or "",
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            cost_usd=cost,
            seconds=time.monotonic() - started,
        )


def import_litellm(purpose: str) -> tuple[Any, Any]:
    """Import LiteLLM and what it builds on; where it is missing, raise MissingExtraError with the purpose."""
    require("litellm", purpose)
    import litellm
    import openai

    litellm.suppress_debug_info = True  # it prints adverts with every error
    return litellm, openai


def api_key(variable: str) -> str:
    """Read a key from the environment; empty where it is not set, as local servers ask for none."""
    return os.environ.get(variable, "")


def _litellm_error(error: Exception) -> Exception:
    status = getattr(error, "status_code", None)
    if not isinstance(status, int):
        return TransientError(str(error))
    response = getattr(error, "response", None)
    return _status_error(status, getattr(response, "headers", None) or {}, str(error).encode())


def _status_error(status: int, headers: Mapping[str, str], content: bytes) -> Exception:
    said = content[:300].decode("utf-8", "replace").strip()
    message = f"HTTP {status}: {said}"
    is_used_up = _NO_MONEY in content
    if not is_used_up and (status in _TRANSIENT_STATUSES or status >= 500):
        return TransientError(message, _retry_after_s(headers.get("retry-after", "")))
    is_fatal = is_used_up or status in _ALL_IN_VAIN
    return ModelError(message, fatal=is_fatal, refused=not is_fatal)


def _retry_after_s(text: str) -> float | None:
    """Read a Retry-After header: seconds or a date."""
    try:
        return max(0.0, float(text))
    except ValueError:
        pass
    try:
        return max(0.0, (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError, OverflowError):
        return None
