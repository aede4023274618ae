"""The stage `generate`: samples a model for kernels and leaves a run folder in KernelBench's layout.

In: prompts and a model's answers. Out: kernels, a journal. May import: prompts, stages and below.
"""
