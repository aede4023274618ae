"""Proofs of the problem set: that it is what was published, and which problems a trivial answer satisfies.

In: problems. Out: findings and certificates. May import: candidate, numerics, problems and below.
"""
