"""KernelBench's own command lines, one module a script: its options, with our stages behind them.

In: a command line. Out: KernelBench's files. May import: everything.
"""
