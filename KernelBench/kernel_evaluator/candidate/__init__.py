"""The process that runs a model, a candidate's or the reference's, and the oracle's end of the line to it.

In: requests in frames. Out: claims, in frames and in shared memory. May import: building and below.
"""
