"""The engine `ray`: any number of machines. `scheduler` decides who judges what, the others carry it out.

In: jobs, from a list or a stream. Out: verdicts as they come. May import: the engine `local`, `wire`.
"""
