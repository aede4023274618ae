"""The stage `generate`: samples a model for kernels and leaves a run folder in KernelBench's layout."""
