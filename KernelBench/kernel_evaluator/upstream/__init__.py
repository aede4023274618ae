"""KernelBench's own rules and file formats, so that figures can be compared with published ones.

In: a hearing, or its files. Out: verdicts of the profile `compat`, its files. May import: judging and below.
"""
