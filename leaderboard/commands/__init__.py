"""The subcommands of `kbl`: each module parses arguments, calls its stage and prints what it says.

In: a command line. Out: text and an exit status. May import: everything but `seed_scripts`.
"""
