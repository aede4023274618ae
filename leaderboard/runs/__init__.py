"""A person's own runs: packed, evaluated in place, analyzed, compared, audited.

In: run folders and recorded results. Out: submissions, scores, findings. May import: generate and below.
"""
