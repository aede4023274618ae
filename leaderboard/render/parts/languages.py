"""Names the language that a kernel is written in, read off its text: for facets, never for a verdict.

A search for words, not a parse: a large board has a quarter of a million sources.
"""

from __future__ import annotations

import re

PYTORCH = "PyTorch"

_SIGNS = (
    ("Helion", ("helion",), r"^[ \t]*(?:import|from)\s+helion\b"),
    ("cuTile", ("cuda.tile",), r"^[ \t]*(?:import|from)\s+cuda\.tile\b"),
    ("Gluon", ("gluon",), r"triton\.experimental(?:\.gluon|\s+import\s+gluon)"),
    ("TileLang", ("tilelang",), r"^[ \t]*(?:import|from)\s+tilelang\b"),
    ("CuTe DSL", ("cutlass",), r"^[ \t]*(?:import|from)\s+cutlass\b"),
    ("ThunderKittens", ("kittens",), r"kittens\.cuh|namespace\s+kittens"),
    ("CUTLASS", ("cutlass/", "cute/"), r"#\s*include\s*[<\"]cut(?:e|lass)/"),
    ("HIP", ("hip/hip_runtime",), ""),
    ("Triton", ("triton",), r"^[ \t]*(?:import|from)\s+triton\b"),
    ("CUDA", ("__global__", "cuda_sources", "cuda_runtime.h", "_compile_kernel", "RawKernel"), ""),
    ("C++", ("cpp_extension",), ""),
)
"""From the most special to the most general: a name, words of which one must be there, and a pattern.

A pattern that begins with a line stays on it: else a kernel of empty lines is read anew from each of them.
"""

_COMPILED = tuple(
    (name, words, re.compile(sign, re.MULTILINE) if sign else None) for name, words, sign in _SIGNS
)


def language(source: str) -> str:
    """Give the most special language that the source shows signs of; PyTorch where it shows none."""
    for name, words, sign in _COMPILED:
        if any(word in source for word in words) and (sign is None or sign.search(source)):
            return name
    return PYTORCH
