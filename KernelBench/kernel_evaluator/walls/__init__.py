"""Walls around untrusted code: namespaces, uids, limits, the filter of system calls.

In: what a process may read, write and use. Out: a confined process, and its end. May import: records.
"""
