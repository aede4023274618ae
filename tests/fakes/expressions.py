"""The part of the workflows' expression language that our workflows use: enough to decide an `if:` or fill an `env:`."""

from __future__ import annotations

import re
from typing import Any

TOKEN = re.compile(
    r"\s*(?:(?P<text>'(?:[^']|'')*')|(?P<number>\d+)|(?P<name>[A-Za-z_][\w.-]*)|(?P<sign>&&|\|\||==|!=|[!(),]))"
)
INSERTED = re.compile(r"\$\{\{(.*?)\}\}", re.DOTALL)


def evaluate(text: str, context: dict[str, Any]) -> Any:
    """Give the value of an expression, with or without its braces."""
    whole = INSERTED.fullmatch(text.strip())
    return _Parser(whole[1] if whole else text, context).parse()


def fill(text: Any, context: dict[str, Any]) -> str:
    """Fill the braces of a text; what is null or missing becomes empty."""
    return INSERTED.sub(lambda match: _as_text(evaluate(match[1], context)), str(text))


def truthy(value: Any) -> bool:
    """Say what an `if:` makes of a value."""
    return value not in (None, False, 0, "")


def _as_text(value: Any) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


class _Parser:
    def __init__(self, text: str, context: dict[str, Any]) -> None:
        self.tokens = self._split(text)
        self.context = context

    def _split(self, text: str) -> list[tuple[str, str]]:
        tokens, at = [], 0
        while text[at:].strip():
            match = TOKEN.match(text, at)
            if match is None:
                raise SyntaxError(f"cannot read {text[at:]!r}")
            tokens.append((match.lastgroup, match[match.lastgroup]))
            at = match.end()
        return tokens

    def parse(self) -> Any:
        value = self._either()
        if self.tokens:
            raise SyntaxError(f"left over: {self.tokens}")
        return value

    def _either(self) -> Any:
        value = self._both()
        while self._take("||"):
            other = self._both()
            value = value if truthy(value) else other
        return value

    def _both(self) -> Any:
        value = self._equal()
        while self._take("&&"):
            other = self._equal()
            value = other if truthy(value) else value
        return value

    def _equal(self) -> Any:
        value = self._single()
        while self.tokens and self.tokens[0][1] in ("==", "!="):
            same = self.tokens.pop(0)[1] == "=="
            value = (_as_text(value) == _as_text(self._single())) is same
        return value

    def _single(self) -> Any:
        if self._take("!"):
            return not truthy(self._single())
        if self._take("("):
            value = self._either()
            self._take(")")
            return value
        kind, word = self.tokens.pop(0)
        if kind == "text":
            return word[1:-1].replace("''", "'")
        if kind == "number":
            return int(word)
        return self._call(word) if self._take("(") else self._look_up(word)

    def _call(self, name: str) -> Any:
        if name == "startsWith":
            whole = self._either()
            self._take(",")
            start = self._either()
            self._take(")")
            return _as_text(whole).lower().startswith(_as_text(start).lower())
        self._take(")")
        return self.context["functions"][name]

    def _look_up(self, path: str) -> Any:
        value: Any = self.context
        for part in path.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        return {"true": True, "false": False}.get(path, value)

    def _take(self, sign: str) -> bool:
        if self.tokens and self.tokens[0][1] == sign:
            self.tokens.pop(0)
            return True
        return False
