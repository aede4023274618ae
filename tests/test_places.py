"""What is measured of places on several machines is put together so that nothing is forgotten."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

import places


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
