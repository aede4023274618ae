"""Reads everything the boards are made of: recorded results, their submissions, and the certificates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from kernel_evaluator.problems.certificates import CERTIFICATES
from kernel_evaluator.problems.deciding import SHARPNESS, Deal, deal_of, read, sharpness_of
from kernel_evaluator.records.places import PROBLEM_SET
from kernel_evaluator.records.rows import BOARD_PRECISIONS, ResultFile

from leaderboard.files import store
from leaderboard.files.merged import merged_results
from leaderboard.files.struck import without_struck_kernels
from leaderboard.files.submission import Submission, load
from leaderboard.garbage import without_collection
from leaderboard.stages.aggregate import Certificates, aggregate
from leaderboard.stages.standings import Board

PLACES = PROBLEM_SET / "places.json"
MOST_PLACES = 0.01
"""So much of an output may be replaced by zero, a constant or an earlier output on two draws alike."""


@without_collection(of_what_stays=True)
def load_boards(data: Path, submissions: Path) -> tuple[Board, ...]:
    """Read the files and aggregate them; raise StoreError or InvalidSubmissionError for a broken one."""
    results, known = read_merged(data, submissions)
    standing = {entry: without_struck_kernels(data, submission) for entry, submission in known.items()}
    return aggregate(results, standing, read_certificates())


def read_merged(data: Path, submissions: Path) -> tuple[list[ResultFile], dict[str, Submission]]:
    """Read all results, each in the revision about its merged submission, and these submissions."""
    results = store.recorded_results(data)
    known = read_submissions(submissions, {result.entry for result in results})
    return merged_results(data, results, known), known


def read_certificates(path: Path = CERTIFICATES) -> Certificates:
    """Read which problems are not ranked, and the evidence, by precision; raise StoreError without the files.

    What is not ranked in fp32 is in no precision. A precision whose certificates are missing is left out. The
    other files lie beside `path`.
    """
    common = _unranked(_certified(path))
    own = {name: path.with_name(f"{path.stem}-{name}.json") for name in BOARD_PRECISIONS[1:]}
    undecided = {name: _undecided(path.with_name(sharpness_of(name).name)) for name in own}
    return {
        "fp32": common,
        **{
            name: undecided[name] | _unranked(_read(file)) | common
            for name, file in own.items()
            if file.is_file()
        },
    }


def read_ranked(path: Path = CERTIFICATES) -> frozenset[str]:
    """Read which problems are proven to be ranked in fp32; raise StoreError without the file."""
    return frozenset(key for key, facts in _certified(path).items() if facts["ranked"])


def _unranked(problems: Mapping[str, Mapping[str, object]]) -> dict[str, str]:
    return {key: str(facts["evidence"]) for key, facts in problems.items() if not facts["ranked"]}


def _read(path: Path) -> dict[str, Any]:
    """Read what a file says of problems: scores depend on it, so its absence never means "all are ranked"."""
    if not path.is_file():
        raise store.StoreError(f"{path} is missing: it says which problems are ranked; kbl doctor says more")
    return dict(store.read_strictly(path)["problems"])


def _certified(path: Path) -> Mapping[str, Mapping[str, object]]:
    """Read the certificates of fp32, with what other files know.

    A problem is not ranked where a trivial answer satisfies it, nor where no inputs decide it at full size,
    nor where a kernel may know places that it need not compute.
    """
    problems = _read(path)
    known = _known_places(path.with_name(PLACES.name))
    for key, why in (known | _undecided(path.with_name(SHARPNESS.name))).items():
        if problems.get(key, {"ranked": True})["ranked"]:
            problems[key] = {"ranked": False, "evidence": why}
    return problems


def read_deals(path: Path = SHARPNESS) -> dict[str, tuple[str, Deal]]:
    """Read what is timed on each problem: at which sizes that was found, full if at all, and the deal."""
    found = read(path)["problems"]
    return {
        key: (sizes, deal_of(entry))
        for sizes in ("reduced", "full")
        for key, entry in found.get(sizes, {}).items()
        if "error" not in entry
    }


def _undecided(path: Path) -> dict[str, str]:
    found: Mapping[str, Mapping[str, object]] = _read(path).get("full", {})
    deals = {key: deal_of(entry) for key, entry in found.items() if "error" not in entry}
    return {key: deal.undecided for key, deal in deals.items() if deal.undecided}


def _known_places(path: Path) -> dict[str, str]:
    return {
        key: f"{seen['two_draws']:.1%} of all places may be left as they are ({seen['where']} inputs)"
        for key, seen in _read(path).items()
        if seen["two_draws"] > MOST_PLACES
    }


def read_submissions(folder: Path, entries: Iterable[str]) -> dict[str, Submission]:
    """Read the merged submissions of these entries, those that there are."""
    paths = {entry: folder / f"{entry}.json" for entry in entries}
    return {entry: load(path) for entry, path in sorted(paths.items()) if path.is_file()}
