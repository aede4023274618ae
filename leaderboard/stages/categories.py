"""What kind of work a problem is, for tables that break results down. Told by its name; scores nothing."""

from __future__ import annotations

import re

_BY_LEVEL: dict[int, tuple[tuple[str, str], ...]] = {
    1: (
        ("loss", r"loss"),
        ("attention", r"attention"),
        ("scan", r"cumsum|cumprod"),
        ("convolution", r"conv"),
        ("pooling", r"pooling"),
        ("normalization", r"norm"),
        ("reduction", r"reduction|argmax|argmin"),
        ("matmul", r"matmul|multiplication"),
        ("activation", r"."),
    ),
    2: (
        ("transposed convolution chain", r"convtranspose"),
        ("convolution chain", r"conv"),
        ("matmul chain", r"."),
    ),
    3: (
        ("recurrent", r"rnn|lstm|gru|mamba"),
        ("transformer", r"transformer|attention|gpt"),
        ("perceptron", r"mlp"),
        ("convolutional", r"."),
    ),
    4: (("language model", r"."),),
}


def category(level: int, name: str) -> str:
    """Give a problem's category: `convolution` for level 1's `67_conv_standard_1D`."""
    return next(word for word, pattern in _BY_LEVEL[level] if re.search(pattern, name, re.IGNORECASE))


FAMILIES = {
    "matmul": ("matmul", "matmul chain", "perceptron"),
    "convolution": ("convolution", "convolution chain", "transposed convolution chain", "convolutional"),
    "attention": ("attention", "transformer"),
    "recurrent": ("recurrent",),
    "normalization": ("normalization",),
    "reduction": ("reduction", "scan"),
    "pooling": ("pooling",),
    "activation": ("activation",),
    "loss": ("loss",),
    "language model": ("language model",),
}
"""Families of operators, of all levels: each with its categories."""


def family(level: int, name: str) -> str:
    """Give the family of operators that a problem's work is mostly of."""
    found = category(level, name)
    return next(word for word, categories in FAMILIES.items() if found in categories)
