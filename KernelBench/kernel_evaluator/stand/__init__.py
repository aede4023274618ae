"""The stand: the reference's process and a candidate's on one device, their buffers, and batches of calls.

In: a problem and a candidate's process. Out: outputs and times of batches. May import: candidate and below.
"""
