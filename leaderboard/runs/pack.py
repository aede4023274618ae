"""Kernels on disk to a submission file, and back. Copies sources as they are; judges and runs nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernel_evaluator.records.keys import PROBLEM_COUNTS, KernelKey
from kernel_evaluator.upstream.files import RunFolder

from leaderboard.checks.report import Mistake, check_bytes
from leaderboard.files import store
from leaderboard.files.run_names import plain_run_name
from leaderboard.files.submission import Submission
from leaderboard.generate.journal import Journal
from leaderboard.generate.run import read_config

_NAMED_BY_KEY = re.compile(r"(level_\d+_problem_\d+_sample_\d+)(?:_kernel)?\.py")
_NAMED_BY_LEVEL = re.compile(r"level_?([1-4])")
_NAMED_BY_PROBLEM = re.compile(r"([1-9]\d{0,2})(?:_.*)?\.py")

_RECORDED = {
    "model_name": "model",
    "temperature": "temperature",
    "num_samples": "samples",
    "backend": "backend",
    "precision": "precision",
}
"""What runs record that goes into the metadata, by the name it has there."""


class PackError(Exception):
    """Kernels that cannot be packed. The message names the files and says what to do."""


@dataclass(frozen=True, kw_only=True)
class Packed:
    """A submission's text, and what `kbl validate` would say of it."""

    text: str
    kernels: int
    missing: Mapping[int, int]
    """Problems without a kernel, a level that has any."""
    mistakes: tuple[Mistake, ...]
    warnings: tuple[Mistake, ...]
    unscored: tuple[str, ...]


def find_kernels(paths: Iterable[Path], samples: Sequence[int] = ()) -> dict[KernelKey, str]:
    """Read the kernels under run folders, or folders of the user's own, of the samples asked for (or all).

    A file is taken for what its name says: `level_1_problem_2_sample_0_kernel.py` (with or without
    `_kernel`) anywhere, or `2_Name.py` and `2.py` below a folder `level1`. A file that two of the paths lead
    to is one. Raises PackError where two files claim one key, where one is a link to what lies elsewhere,
    and where a folder holds no kernel, or none of the samples.
    """
    found: dict[KernelKey, Path] = {}
    for root in paths:
        named = {path: _key_of(path) for path in _python_files(root)}
        kernels = {path: key for path, key in named.items() if key is not None}
        if not kernels:
            raise PackError(
                f"{root}: no kernel here; name them level_1_problem_2_sample_0_kernel.py or level1/2.py"
            )
        for path, key in kernels.items():
            if not path.resolve().is_relative_to(root.resolve()):  # of a stranger's folder it may be a secret
                raise PackError(f"{path}: is a link out of {root}; put the file itself there, or remove it")
            if key in found and not path.samefile(found[key]):
                raise PackError(f"{key} is claimed by two files, {found[key]} and {path}; remove one")
            if not samples or key.sample in samples:
                found[key] = path
    if not found:
        wanted = ", ".join(map(str, samples))
        raise PackError(f"no kernel of sample {wanted} here; leave --sample out, or name another")
    return {key: read_source(found[key]) for key in sorted(found)}


def nameless(paths: Iterable[Path]) -> list[Path]:
    """List the Python files there whose names are no kernel's."""
    return [path for root in paths for path in _python_files(root) if _key_of(path) is None]


def pack(kernels: Mapping[KernelKey, str], metadata: Mapping[str, Any], name: str) -> Packed:
    """Make the submission file's text; `name` is the file's name, which becomes the entry's id."""
    value = {"metadata": dict(metadata), "kernels": {str(key): kernels[key] for key in sorted(kernels)}}
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    problems = {(key.level, key.problem_id) for key in kernels}
    levels = sorted({level for level, _ in problems})
    missing = {level: PROBLEM_COUNTS[level] - sum(at == level for at, _ in problems) for level in levels}
    report = check_bytes(text.encode("utf-8", "surrogatepass"), Path(name))
    return Packed(
        text=text,
        kernels=len(kernels),
        missing={level: count for level, count in missing.items() if count},
        mistakes=report.mistakes,
        warnings=report.warnings,
        unscored=report.unscored,
    )


def generation_metadata(paths: Iterable[Path]) -> dict[str, Any]:
    """Gather what the runs' own records say: backend, precision, model, temperature, samples, cost, tokens.

    A run counts once, however the paths lead to it, and one that lies below a path as one that is named.
    Cost and tokens are left out unless those of every answer are known, and so is what runs say differently.
    """
    recorded = _recorded_runs(paths)
    totals = [Journal(path).totals() for path in recorded]
    answered = bool(totals) and all(total.replies for total in totals)
    priced = answered and all(total.priced == total.replies for total in totals)
    counted = answered and all(total.counted == total.replies for total in totals)
    said = {name: list(values.values()) for name, values in _said(recorded).items()}
    merged = {name: values[0] for name, values in said.items() if values and _are_alike(values)}
    generation = {
        "model": merged.get("model_name"),
        "temperature": merged.get("temperature"),
        "samples": merged.get("num_samples"),
        "cost_usd": round(sum(total.cost_usd for total in totals), 6) if priced else None,
        "tokens": sum(each.prompt_tokens + each.completion_tokens for each in totals) if counted else None,
    }
    generation = {name: value for name, value in generation.items() if value not in (None, "")}
    metadata = {
        "backend": merged.get("backend"),
        "precision": merged.get("precision"),
        "generation": generation,
    }
    return {name: value for name, value in metadata.items() if value}


def unlike(paths: Iterable[Path], given: Collection[str] = ()) -> list[str]:
    """Say which fields runs recorded differently, but for those that are given besides.

    Raises PackError where it is the precision: that decides the board.
    """
    found = []
    for name, values in _said(_recorded_runs(paths)).items():
        field = _RECORDED[name]
        if field in given or _are_alike(list(values.values())):
            continue
        listed = ", ".join(f"{value!r} in {path}" for path, value in values.items())
        if field == "precision":
            raise PackError(f"precision is {listed}; pack runs of one precision, or say which it is")
        found.append(f"{field} is left out, since it is {listed}")
    return found


def unpack(submission: Submission, root: Path, run_name: str) -> list[Path]:
    """Write one run folder a level, `<run_name>_level1` and so on, as KernelBench's own scripts expect.

    Raises ValueError where the name would lead out of `root`, PackError where such a folder holds a kernel
    that is not the submission's: it may be the only copy, and results beside it are of it.
    """
    plain_run_name(run_name)
    levels = sorted({key.level for key in submission.kernels})
    runs = {level: RunFolder(path=root / f"{run_name}_level{level}") for level in levels}
    for run in runs.values():
        for key in run.kernel_keys():
            path = run.kernel_path(key)
            if path.read_bytes() != submission.kernels.get(key, "").encode():
                raise PackError(
                    f"{path}: holds another kernel than the submission, and nothing is written; "
                    "give the runs another name, or remove the folder"
                )
    for key, source in submission.kernels.items():
        runs[key.level].write_kernel(key, source)
    return [run.path for run in runs.values()]


def write(path: Path, packed: Packed) -> None:
    """Write the submission file in one step."""
    store.write_atomically(path, packed.text)


def _said(runs: Iterable[Path]) -> dict[str, dict[Path, Any]]:
    """What each run recorded, by name, of those that recorded anything under it."""
    configs = {run: read_config(run / "generation_config.yaml") for run in runs}
    return {
        name: {run: config[name] for run, config in configs.items() if config.get(name) not in (None, "")}
        for name in _RECORDED
    }


def _are_alike(values: Sequence[Any]) -> bool:
    return all(value == values[0] for value in values)


def _recorded_runs(paths: Iterable[Path]) -> list[Path]:
    """The folders that kernels are taken from, and those named, as far as a run left its record there."""
    once: dict[Path, Path] = {}
    for root in paths:
        for folder in dict.fromkeys((root, *(path.parent for path in _python_files(root)))):
            once.setdefault(folder.resolve(), folder)
    return [folder for folder in once.values() if (folder / "generation_config.yaml").is_file()]


def _python_files(root: Path) -> list[Path]:
    """The Python files of a folder, without the copies that editors keep under hidden names."""
    if root.is_file():
        return [root]
    if not root.is_dir():
        raise PackError(f"{root}: no such file or folder")
    return sorted(
        path
        for path in root.rglob("*.py")
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(root).parts)
    )


def _key_of(path: Path) -> KernelKey | None:
    named = _NAMED_BY_KEY.fullmatch(path.name)
    level = _NAMED_BY_LEVEL.fullmatch(path.absolute().parent.name)
    problem = _NAMED_BY_PROBLEM.fullmatch(path.name)
    try:
        if named:
            return KernelKey.parse(named[1])
        return KernelKey(int(level[1]), int(problem[1])) if level and problem else None
    except ValueError as error:
        raise PackError(f"{path}: {error}") from error


def read_source(path: Path) -> str:
    """Read a kernel as it stands, line ends included; raise PackError where it is not UTF-8."""
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise PackError(f"{path}: must be UTF-8: {error}; save it anew, or remove it") from error
