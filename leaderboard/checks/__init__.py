"""The single checks of `validate`, by what they look at: the file, its JSON, its fields, its kernels.

Each check is a generator over a `Document` that yields a `Spot` for each mistake.
None imports or runs a kernel.
"""
