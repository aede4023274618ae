"""Judging: trials, the panel, timing, and the verdict on one candidate.

In: a stand, a job and a candidate's process. Out: a row. May import: timing and below.
"""
