"""The problem set, the inputs and weights drawn for a problem, and the jobs that ask for a verdict.

In: problem files and seeds. Out: problems, tensors, jobs. May import: machine and below.
"""
