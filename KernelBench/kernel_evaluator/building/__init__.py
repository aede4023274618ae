"""Compiling kernels apart from judging them: confined, without a GPU, into a private cache.

In: jobs. Out: built extensions, logs, a status. May import: labels, problems, walls and below.
"""
