"""Labels for kernels, from their text and from the list of what they launched. They never decide a verdict.

In: sources and profiles. Out: labels, facts, warnings. May import: records.
"""
