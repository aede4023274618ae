"""A valid submission as the rest of the pipeline sees it. Reads inert text; never imports a kernel."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from kernel_evaluator.records.keys import KernelKey

from leaderboard.checks.precision import precision_of
from leaderboard.checks.report import FORM_CHECKS, Mistake, check_bytes, read_capped


class InvalidSubmissionError(ValueError):
    """A submission that cannot be read; `mistakes` lists what is wrong with it."""

    def __init__(self, name: str, mistakes: tuple[Mistake, ...]) -> None:
        self.mistakes = mistakes
        first = mistakes[0]
        rest = f" (and {len(mistakes) - 1} more: kbl validate lists them)" if len(mistakes) > 1 else ""
        super().__init__(f"{name}:{first.line}:{first.column}: {first.message}; {first.mend}{rest}")


@dataclass(frozen=True, kw_only=True)
class Submission:
    """One entry: its id, its file's digest, its metadata without empty fields, its kernels in key order."""

    entry: str
    sha256: str
    metadata: Mapping[str, Any]
    kernels: Mapping[KernelKey, str] = field(repr=False)

    @property
    def display_name(self) -> str:
        """The name on the board."""
        return str(self.metadata["display_name"])

    @cached_property
    def digests(self) -> Mapping[KernelKey, str]:
        """Digest of each kernel's source, as rows name it."""
        return {key: kernel_sha256(source) for key, source in self.kernels.items()}

    @property
    def precision(self) -> str:
        """The class of its board: `bf16` where it says so, and `fp32` otherwise."""
        return precision_of(self.metadata)

    @property
    def is_baseline(self) -> bool:
        """Whether the entry is a maintainers' baseline: listed, not ranked."""
        return bool(self.metadata.get("baseline", False))


def unsent(entry: str, kernels: Mapping[KernelKey, str]) -> Submission:
    """Make a submission of kernels that nobody sent, for a run of one's own; its digest is theirs."""
    digest = hashlib.sha256()
    for key in sorted(kernels):
        digest.update(f"{key}\n{kernels[key]}\n".encode("utf-8", "surrogatepass"))
    return Submission(
        entry=entry, sha256=digest.hexdigest(), metadata={}, kernels=dict(sorted(kernels.items()))
    )


def kernel_sha256(source: str) -> str:
    """Digest a kernel's source, as evaluation does."""
    return hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()


def load(path: Path) -> Submission:
    """Read a submission file; raise InvalidSubmissionError or OSError.

    Runs the checks of form, not those of each kernel's syntax: a kernel that does not parse is judged
    like any other, and fails to compile.
    """
    return parse(read_capped(path), path.name, str(path))


def filled(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Give the fields that say something: the earlier board's tools write empty ones."""
    return {name: given for name, given in metadata.items() if given not in (None, "")}


def parse(raw: bytes, name: str, shown: str = "") -> Submission:
    """Read a submission from its bytes and its file's name, as `load` does; errors name what is `shown`."""
    report = check_bytes(raw, Path(name), FORM_CHECKS)
    if report.mistakes:
        raise InvalidSubmissionError(shown or name, report.mistakes)
    value = json.loads(raw)
    kernels = {KernelKey.parse(key): source for key, source in value["kernels"].items()}
    return Submission(
        entry=name.removesuffix(".json"),
        sha256=hashlib.sha256(raw).hexdigest(),
        metadata=filled(value["metadata"]),
        kernels=dict(sorted(kernels.items())),
    )
