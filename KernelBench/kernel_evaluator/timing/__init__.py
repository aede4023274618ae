"""Timing: deals of rounds on the stand, what they say of the speedup, and what in them looks odd.

In: a stand with both sides. Out: a measurement with its interval. May import: stand and below.
"""
