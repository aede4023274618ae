"""Which distributions of inputs are dealt in timing: each until it was looked at, and none before the others."""

from kernelbench.measure import Deck


def test_what_was_not_looked_at_is_dealt_before_anything_again():
    deck = Deck(["upstream", "signed", "rows"])
    assert {deck.deal() for _ in range(3)} == {"upstream", "signed", "rows"}
    deck.see("rows")
    assert {deck.deal() for _ in range(2)} == {"upstream", "signed"}


def test_upstream_alone_is_dealt_until_it_was_looked_at():
    deck = Deck(["upstream"])
    assert not deck.is_empty and deck.deal() == "upstream"
    deck.see("upstream")
    assert deck.is_empty and not deck.unseen


def test_a_distribution_that_says_nothing_is_dealt_no_more():
    deck = Deck(["upstream", "signed", "rows"])
    deck.drop("signed")
    assert {deck.deal() for _ in range(2)} == {"upstream", "rows"}
    for name in ("upstream", "rows"):
        deck.see(name)
    assert {deck.any() for _ in range(20)} == {"rows"}
