"""What is measured of places on several machines is put together so that nothing is forgotten."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

import places
from kernel_evaluator import ProblemSet
from kernel_evaluator.problems.deciding import SHARPNESS

from leaderboard.stages.boards import read_certificates

TRUST = Path(__file__).resolve().parents[1] / "docs" / "trust.md"


def said(sizes: str, share: float) -> dict[str, object]:
    return {"sizes": sizes, "two_draws": share}


def test_full_size_tells_more_than_a_reduced_one_and_the_larger_share_stays():
    before = {"1_1": said("reduced", 0.5), "1_2": said("full", 0.02), "1_3": said("full", 0.001)}
    found = {
        "1_1": said("full", 0.0),
        "1_2": said("full", 0.003),
        "1_3": said("full", 0.02),
        "1_4": said("full", 0),
    }
    together = places.put_together(before, found)
    assert {key: each["two_draws"] for key, each in together.items()} == {
        "1_1": 0.0,
        "1_2": 0.02,
        "1_3": 0.02,
        "1_4": 0,
    }
    assert places.put_together(together, {"1_2": said("reduced", 0.9)}) == together


def test_what_an_h100_found_at_full_size_is_what_ranks_hang_on():
    known = places.known(places.PLACES)
    full = [key for key, each in known.items() if each["sizes"] == "full" and each["device"] == "cuda"]
    out = sorted(key for key, each in known.items() if each["two_draws"] > 0.01 and key in full)
    assert len(full) == 229
    assert out == ["2_11", "2_20", "2_48", "2_60", "2_61", "3_24", "3_48"]


def test_the_page_on_trust_says_which_problems_places_take_out_and_where_that_was_measured():
    known = places.known(places.PLACES)
    taken = [key for key, why in read_certificates()["fp32"].items() if "of all places" in str(why)]
    on = {device: [key for key in taken if known[key]["device"] == device] for device in ("cuda", "cpu")}
    assert {known[key]["sizes"] for key in taken} == {"full"}
    *others, last = (key.replace("_", "/") for key in on["cuda"])
    (on_a_cpu,) = (key.replace("_", "/") for key in on["cpu"])
    said = f"takes {', '.join(others)} and {last} out on an H100, and {on_a_cpu} on a CPU"
    assert said in " ".join(TRUST.read_text("utf-8").split())


def test_what_decides_was_tried_at_full_size_for_all_problems():
    full = {
        each["problem_sha256"]
        for each in json.loads(SHARPNESS.read_text("utf-8"))["problems"]["full"].values()
    }
    problems = ProblemSet()
    ranked = [problems.load(level, at).sha256 for level in (1, 2, 3) for at in problems.ids(level)]
    assert (len(ranked), set(ranked) - full) == (250, set())
    assert "All 250 problems were tried at full size" in TRUST.read_text("utf-8")
