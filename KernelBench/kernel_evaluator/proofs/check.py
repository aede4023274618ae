"""Proves the problem set: against the published fingerprints, and against another folder of its layout.

Runs reference problems, which are trusted, in worker processes of its own. Never runs a submission, and is
no part of judging one.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from kernel_evaluator.problems.problem_set import Problem
from kernel_evaluator.proofs.runs import Run, Summary, run, shapes_at_full_size
from kernel_evaluator.records.places import PROBLEM_SET

PROVEN = PROBLEM_SET / "proven.json"

SEED = 42
VALUE_TOLERANCE = 1e-6
"""Of weights and inputs, relative to the mean magnitude: they come from the random generator alone."""

OUTPUT_TOLERANCE = 1e-4
SAMPLE_TOLERANCE = 1e-3
"""Of single output elements, whose rounding differs between processors."""

IN_FLOAT64 = frozenset({"3_24"})
"""Problems whose float32 output changes with the number of threads; they are compared in float64."""


LONG_LOOPS = frozenset({"3_35", "3_36", "3_37", "3_38", "3_39", "3_40", "3_41", "3_42"})
"""Recurrent problems: at full size only their inputs are looked at, stepping through time takes long."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What a check found about one problem; `skipped` says why it was not run."""

    problem: str
    mistakes: tuple[str, ...] = ()
    skipped: str = ""

    @property
    def holds(self) -> bool:
        """Whether the problem was checked and nothing was found."""
        return not self.mistakes and not self.skipped


Check = Callable[[Problem], Finding]


def read_fingerprints(path: Path = PROBLEM_SET / "fingerprints.json") -> dict[str, dict[str, Any]]:
    """Read the published facts: problem (`"1_19"`) to its state, inputs and outputs."""
    problems: dict[str, dict[str, Any]] = json.loads(path.read_text("utf-8"))["problems"]
    return problems


def read_proven(path: Path = PROVEN) -> dict[str, str]:
    """Read the digests of the sources that held when they were last checked; none where there is no file."""
    if not path.is_file():
        return {}
    problems: dict[str, str] = json.loads(path.read_text("utf-8"))["problems"]
    return problems


def dump_proven(digests: Mapping[str, str]) -> str:
    """Write the text of `proven.json`, one problem a line."""
    names = sorted(digests, key=lambda name: [int(part) for part in name.split("_")])
    source = (
        "Digests of problem files that agreed with fingerprints.json; written by kbl problems check --prove."
    )
    values = {"source": source, "problems": {name: digests[name] for name in names}}
    return json.dumps(values, indent=1) + "\n"


def check_all(problems: Sequence[Problem], check: Check, jobs: int = 1) -> Iterator[Finding]:
    """Check problems in `jobs` worker processes, yielding findings in the problems' order."""
    with ProcessPoolExecutor(max_workers=jobs, mp_context=get_context("spawn")) as pool:
        yield from pool.map(check, problems)


def fingerprint_check(sizes: Mapping[str, Mapping[str, Any]]) -> Check:
    """Make the check of a problem against the published fingerprints, at the sizes of the table."""
    return partial(_against_fingerprint, sizes=dict(sizes), fingerprints=read_fingerprints())


def twin_check(others: Sequence[Problem], sizes: Mapping[str, Mapping[str, Any]]) -> Check:
    """Make the check that a problem does what the problem of the same number among `others` does."""
    twins = {_name(other): other for other in others}
    return partial(_against_twin, sizes=dict(sizes), twins=twins)


def _against_fingerprint(
    problem: Problem, *, sizes: Mapping[str, Any], fingerprints: Mapping[str, Mapping[str, Any]]
) -> Finding:
    name = _name(problem)
    expected = fingerprints.get(name)
    if expected is None:
        return Finding(problem=name, skipped="no fingerprint: its weights come from a model hub")
    return _finding(name, lambda: _compare(problem, problem.reduced(sizes), expected))


def _against_twin(problem: Problem, *, sizes: Mapping[str, Any], twins: Mapping[str, Problem]) -> Finding:
    name = _name(problem)
    twin = twins.get(name)
    if twin is None:
        return Finding(problem=name, mistakes=("the other folder has no such problem",))
    if problem.level == 4:
        return _finding(name, lambda: _compare_settings(problem, twin))
    return _finding(name, lambda: _compare_twins(problem, twin, sizes))


def _finding(name: str, compare: Callable[[], list[str]]) -> Finding:
    try:
        return Finding(problem=name, mistakes=tuple(compare()))
    except Exception as error:  # noqa: BLE001  # a problem file may raise anything; the others go on
        return Finding(problem=name, mistakes=(f"{type(error).__name__}: {error}"[:500],))


def _compare(problem: Problem, reduced: Problem, expected: Mapping[str, Any]) -> list[str]:
    double = _name(problem) in IN_FLOAT64
    found = run(reduced, SEED, double=double)
    outputs = expected["outputs_float64"] if double else expected["outputs"]
    mistakes = []
    if not _same_literal(found.init, expected["init"]):
        mistakes.append(f"get_init_inputs() gives {found.init}, expected {expected['init']}")
    mistakes += _compare_state(found.state, expected["state"])
    mistakes += _compare_values("input", found.inputs, expected["inputs"], VALUE_TOLERANCE)
    mistakes += _compare_values("output", found.outputs, outputs, OUTPUT_TOLERANCE)
    mistakes += _compare_full(problem, expected)
    return mistakes


def _compare_state(found: Sequence[tuple[str, Summary]], expected: Sequence[Sequence[Any]]) -> list[str]:
    names, wanted = [name for name, _ in found], [entry[0] for entry in expected]
    if names != wanted:
        at = next((i for i, pair in enumerate(zip(names, wanted, strict=False)) if pair[0] != pair[1]), None)
        where = (
            f"{len(names)} entries, expected {len(wanted)}"
            if at is None
            else (f"{names[at]!r} where {wanted[at]!r} belongs")
        )
        return [f"state_dict names or order differ: {where}"]
    mistakes = []
    for (name, summary), (_, shape, total, abs_sum) in zip(found, expected, strict=True):
        if list(summary.shape) != shape:
            mistakes.append(f"{name} has shape {list(summary.shape)}, expected {shape}")
        elif not (
            _near(summary.total, total, abs_sum, VALUE_TOLERANCE)
            and _near(summary.abs_sum, abs_sum, abs_sum, VALUE_TOLERANCE)
        ):
            mistakes.append(f"{name} starts from other values: sum {summary.total:.9g}, expected {total:.9g}")
    return mistakes


def _compare_values(
    what: str, found: Sequence[Summary | float], expected: Sequence[Mapping[str, Any]], tolerance: float
) -> list[str]:
    if len(found) != len(expected):
        return [f"{len(found)} {what}s, expected {len(expected)}"]
    return [
        f"{what} {at}: {why}"
        for at, (value, facts) in enumerate(zip(found, expected, strict=True))
        for why in _differences(value, facts, tolerance)
    ]


def _differences(value: Summary | float, facts: Mapping[str, Any], tolerance: float) -> Iterator[str]:
    if not isinstance(value, Summary):
        if value != facts.get("scalar"):
            yield f"is {value!r}, expected {facts.get('scalar')!r}"
        return
    if "shape" in facts and (list(value.shape), value.dtype) != (facts["shape"], facts["dtype"]):
        yield f"is {value.dtype}{list(value.shape)}, expected {facts['dtype']}{facts['shape']}"
        return
    sums = {"sum": value.total, "abs_sum": value.abs_sum, "weighted_sum": value.weighted_sum}
    for name, figure in sums.items():
        if not _near(figure, facts[name], facts["abs_sum"], tolerance):
            yield f"{name} is {figure:.9g}, expected {facts[name]:.9g}"
    mean = facts["abs_sum"] / max(1, value.count)
    samples = zip(value.samples, facts.get("samples", value.samples), strict=True)
    for index, (got, wanted) in enumerate(samples):
        if not _near(got, wanted, max(abs(wanted), mean), SAMPLE_TOLERANCE):
            yield f"sample {index} is {got:.9g}, expected {wanted:.9g}"
            return


def _compare_full(problem: Problem, expected: Mapping[str, Any]) -> list[str]:
    init, inputs, outputs = shapes_at_full_size(problem, forward=_name(problem) not in LONG_LOOPS)
    mistakes = []
    if not _same_literal(init, expected["full_init"]):
        mistakes.append(f"at full size get_init_inputs() gives {init}, expected {expected['full_init']}")
    for what, found in (("inputs", inputs), ("outputs", outputs)):
        if found is not None and found != expected[f"full_{what}"]:
            mistakes.append(f"at full size the {what} are {found}, expected {expected[f'full_{what}']}")
    return mistakes


def _compare_twins(problem: Problem, twin: Problem, sizes: Mapping[str, Any]) -> list[str]:
    mistakes = [] if problem.name == twin.name else [f"is named {twin.name} there"]
    double = _name(problem) in IN_FLOAT64
    ours, theirs = (run(item.reduced(sizes), SEED, double=double) for item in (problem, twin))
    if not _same_literal(ours.init, theirs.init):
        mistakes.append(f"get_init_inputs() gives {theirs.init} there, {ours.init} here")
    mistakes += _twin_differences(ours, theirs)
    forward = _name(problem) not in LONG_LOOPS
    here, there = (shapes_at_full_size(item, forward=forward) for item in (problem, twin))
    if here[1:] != there[1:] or not _same_literal(here[0], there[0]):
        mistakes.append(f"full sizes differ: {there} there, {here} here")
    return mistakes


def _twin_differences(ours: Run, theirs: Run) -> list[str]:
    expected = [[name, list(s.shape), s.total, s.abs_sum] for name, s in theirs.state]
    return (
        _compare_state(ours.state, expected)
        + _compare_values("input", ours.inputs, _as_facts(theirs.inputs), VALUE_TOLERANCE)
        + _compare_values("output", ours.outputs, _as_facts(theirs.outputs), OUTPUT_TOLERANCE)
    )


def _as_facts(values: Sequence[Summary | float]) -> list[dict[str, Any]]:
    return [value.facts() if isinstance(value, Summary) else {"scalar": value} for value in values]


def _compare_settings(problem: Problem, twin: Problem) -> list[str]:
    """Level 4 needs a model hub to run: its files are compared by the constants that make them differ."""
    ours, theirs = _constants(problem.source), _constants(twin.source)
    return [
        f"{name} is {theirs.get(name)!r} there, {ours.get(name)!r} here"
        for name in ("model_name", "sequence_length", "batch_size")
        if ours.get(name) != theirs.get(name)
    ]


def _constants(source: str) -> dict[str, Any]:
    found = {}
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant):
            found.update({t.id: statement.value.value for t in statement.targets if isinstance(t, ast.Name)})
    return found


def _same_literal(found: str, expected: str) -> bool:
    """Constructor arguments are equal; tuples and lists of the same items count as the same."""
    return bool(_as_lists(ast.literal_eval(found)) == _as_lists(ast.literal_eval(expected)))


def _as_lists(value: Any) -> Any:
    return [_as_lists(item) for item in value] if isinstance(value, list | tuple) else value


def _near(found: float, expected: float, scale: float, tolerance: float) -> bool:
    return abs(found - expected) <= tolerance * max(scale, 1e-30)


def _name(problem: Problem) -> str:
    return f"{problem.level}_{problem.problem_id}"
