"""From which distributions timed inputs are drawn: by shares, each call's for itself, whatever their number."""

from collections import Counter

import pytest
from kernel_evaluator.timing.deck import Deck

SHARES = {"upstream": 0.0625, "signed": 0.46875, "mixed": 0.46875}


@pytest.mark.parametrize("calls", [1, 2, 8, 256])
def test_each_call_is_drawn_by_shares_however_many_there_are(calls):
    deck = Deck(SHARES)
    for name in SHARES:
        deck.see(name)
    times = 8192 // calls
    drawn = Counter(name for _ in range(times) for name in deck.deal(calls))
    assert drawn.total() == times * calls
    assert drawn["upstream"] / drawn.total() == pytest.approx(SHARES["upstream"], abs=0.02)
    assert drawn["signed"] / drawn.total() == pytest.approx(SHARES["signed"], abs=0.03)


def test_one_call_a_round_is_of_what_was_not_looked_at_yet():
    deck = Deck({"signed": 0.5, "mixed": 0.5})
    deck.see("signed")
    assert all("mixed" in deck.deal(2) for _ in range(50))
    deck.see("mixed")
    assert not deck.unseen


def test_timing_does_not_wait_for_upstreams_inputs_where_these_decide_nothing():
    assert Deck(SHARES).unseen == {"signed", "mixed"}
    assert Deck({"upstream": 1.0}).unseen == {"upstream"}


def test_a_distribution_that_says_nothing_is_dealt_no_more():
    deck = Deck(SHARES)
    deck.drop("signed")
    assert set(deck.deal(200)) == {"upstream", "mixed"}
    assert deck.unseen == {"mixed"}
