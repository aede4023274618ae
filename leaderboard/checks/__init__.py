"""The single checks of `validate`, by what they look at: the file, its JSON, its fields, its kernels.

In: a `Document`. Out: a `Spot` for each mistake. May import: texts and below; none imports or runs a kernel.
"""
