"""KernelBench's own command lines, one module a script: its options, with our stages behind them."""
