"""Light speed: what a problem as posed needs at least, and how near a kernel's time comes to it.

In: problems, peaks of devices. Out: figures for people, on which no verdict hangs. May import: files, below.
"""
