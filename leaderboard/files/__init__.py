"""What is on disk, as records: submissions, results, work files, baselines.

In: files. Out: records, and files written atomically. May import: checks and below.
"""
