"""Prompts that ask a model for a kernel, assembled from the TOML files and examples beside this module.

In: a problem's source. Out: a prompt. May import: nothing else here. Owns wording and order; never talks to a
model, and never judges an answer.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

PROMPTS_TOML = Path(__file__).parent / "prompts.toml"
HARDWARE_TOML = Path(__file__).parent / "hardware.toml"
EXAMPLES = Path(__file__).parent / "examples"

_CHOICES = {"backends": "backend", "custom_prompts": "custom prompt", "gpus": "hardware", "options": "prompt"}
"""What people choose from a table, as the options of `kbl generate` call it."""

_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")


@dataclass(frozen=True, kw_only=True)
class PromptOptions:
    """What a prompt says besides the problem. `custom` names a table of `[custom_prompts]` with its order.

    `gpu_name` includes hardware facts where given; `precision` adds a note where given.
    """

    backend: str = "cuda"
    option: str = "one_shot"
    precision: str | None = None
    gpu_name: str | None = None
    custom: str | None = None
    prompts_toml: Path = PROMPTS_TOML

    @property
    def own_sha256(self) -> str | None:
        """Digest a prompts file of one's own; None for the one that comes with the package."""
        if self.prompts_toml == PROMPTS_TOML:
            return None
        return hashlib.sha256(self.prompts_toml.read_bytes()).hexdigest()

    def render(self, ref_arch_src: str) -> str:
        """Write the prompt for one problem's source; raise ValueError that lists what would be known.

        What is wrong with a prompts file of one's own is told with its name.
        """
        hardware = hardware_values(self.gpu_name) if self.gpu_name else {}
        try:
            book = read_toml(self.prompts_toml)
            components = self._components(book)
            values = self._values(book, ref_arch_src, hardware)
            blocks = [_block(book, name, values) for name in components if self._wants(name)]
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            if self.prompts_toml == PROMPTS_TOML:
                raise
            why = f"{error} is missing" if isinstance(error, KeyError) else error
            raise ValueError(f"{self.prompts_toml}: {why}; {PROMPTS_TOML} shows what it must hold") from error
        return "\n\n".join(block for block in blocks if block) + "\n"

    def _components(self, book: Mapping[str, Any]) -> Sequence[str]:
        if self.custom is None:
            components = _entry(book, "options", self.option)["components"]
        else:
            components = _entry(book, "custom_prompts", self.custom)["components"]
        if self.gpu_name and not any(name.startswith("hardware_") for name in components):
            raise ValueError(f"the prompt {self.custom or self.option!r} has no hardware_* component to fill")
        return list(components)

    def _wants(self, name: str) -> bool:
        if name.startswith("hardware_"):
            return self.gpu_name is not None
        return self.precision is not None if name == "precision_note" else True

    def _values(
        self, book: Mapping[str, Any], ref_arch_src: str, hardware: Mapping[str, str]
    ) -> dict[str, str]:
        backend = _entry(book, "backends", self.backend)
        values = {"ref_arch_src": ref_arch_src.strip(), "backend_display": backend["backend_display"]}
        values["gpu_name"] = self.gpu_name or ""
        if self.precision:
            values["precision_display"] = _entry(book, "precision", self.precision)["precision_display"]
        values |= hardware
        values["examples_block"] = self._examples(book, backend, values)
        return values

    def _examples(
        self, book: Mapping[str, Any], backend: Mapping[str, Any], values: Mapping[str, str]
    ) -> str:
        needed = self.custom is not None or book["options"][self.option].get("requires_example", False)
        if not needed:
            return ""
        several = self.option == "few_shot"
        names = backend["few_shot_examples"] if several else [Path(backend["one_shot_new_arch"]).stem]
        common = book["templates"]["common"]
        entries = [_fill(common["examples_intro"], values).strip()]
        for number, name in enumerate(names, start=1):
            example = {
                "example_label": f"Example {number}:" if several else "Example:",
                "example_arch_src": (EXAMPLES / "reference" / f"{name}.py").read_text("utf-8").strip(),
                "example_new_arch_src": (EXAMPLES / self.backend / f"{name}.py").read_text("utf-8").strip(),
            }
            entries.append(_fill(common["example_entry_template"], {**values, **example}).strip())
        return "\n\n".join(entries)


@cache
def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file once; a mark that an editor set before its text is none of it."""
    return tomllib.loads(path.read_text("utf-8-sig"))


def backends() -> list[str]:
    """List the backends that prompts exist for."""
    return sorted(read_toml(PROMPTS_TOML)["backends"])


def hardware_values(gpu_name: str) -> dict[str, str]:
    """Give the placeholders of the hardware blocks for one device; raise ValueError for an unknown one."""
    book = read_toml(HARDWARE_TOML)
    gpu = _entry(book, "gpus", gpu_name)
    vendor = book["vendors"][gpu["vendor"]]
    return {
        "gpu_name": gpu_name,
        "gpu_vendor": gpu["vendor"],
        "gpu_architecture": gpu["architecture"],
        "gpu_specs_bullets": _bullets(f"{name}: {value}" for name, value in gpu["specs"].items()),
        "gpu_definitions_bullets": _bullets(
            f"{name}: {text}" for name, text in vendor["definitions"].items()
        ),
        "gpu_best_practices_bullets": _bullets(vendor["best_practices"]),
    }


def _bullets(lines: Any) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _entry(book: Mapping[str, Any], table: str, name: str) -> Mapping[str, Any]:
    entries: Mapping[str, Mapping[str, Any]] = book[table]
    if name not in entries:
        raise ValueError(f"{_CHOICES.get(table, table)} must be one of {', '.join(entries)}; got {name!r}")
    return entries[name]


def _block(book: Mapping[str, Any], name: str, values: Mapping[str, str]) -> str:
    if name == "examples_block":
        return values["examples_block"].strip()
    for table in (book["shared"], book["templates"]["common"], book["templates"].get("hardware", {})):
        if name in table:
            return _fill(table[name], values).strip()
    raise ValueError(f"the prompt's component {name!r} stands in none of the tables shared and templates")


def _fill(template: str, values: Mapping[str, str]) -> str:
    """Fill known placeholders; braces around anything else are text, as in code."""
    return _PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), template)
