"""Thirty-two different CUDA kernels for level 1 problems, each compiled by `load_inline`.

For measuring builds, not for speed: every one is right, none is tuned. The CUDA lies in `kernels/*.cu`,
with places for what differs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from string import Template

_FOLDER = Path(__file__).resolve().parent / "kernels"

_ELEMENTWISE = {
    19: ("relu", "fmaxf(x, 0.0f)", 256),
    20: ("leaky_relu", "x > 0.0f ? x : 0.01f * x", 128),
    21: ("sigmoid", "1.0f / (1.0f + expf(-x))", 256),
    22: ("tanh_forward", "tanhf(x)", 512),
    25: ("swish", "x / (1.0f + expf(-x))", 256),
    26: ("gelu", "0.5f * x * (1.0f + erff(x * 0.70710678118654752f))", 128),
    27: ("selu", "1.0507009873554805f * (x > 0.0f ? x : 1.6732632423543772f * expm1f(x))", 256),
    28: ("hard_sigmoid", "fminf(fmaxf(x + 3.0f, 0.0f), 6.0f) * (1.0f / 6.0f)", 1024),
    29: ("softplus", "x > 20.0f ? x : log1pf(expf(x))", 256),
    30: ("softsign", "x / (1.0f + fabsf(x))", 512),
    31: ("elu", "x > 0.0f ? x : expm1f(x)", 128),
    32: ("hard_tanh", "fminf(fmaxf(x, -1.0f), 1.0f)", 256),
    88: ("new_gelu", "0.5f * x * (1.0f + tanhf(0.79788456080286536f * (x + 0.044715f * x * x * x)))", 256),
}
_EXPONENTIALS = """float total = 0.0f;
    for (int64_t i = threadIdx.x; i < width; i += {0}) total += expf(row[i] - folded);
    total = over_block<add, {0}>(total);"""
_ROWS = {
    23: ("softmax", "-FLT_MAX", "fmaxf(a, b)", "v", _EXPONENTIALS, "expf(v - folded) / total", 512),
    24: ("log_softmax", "-FLT_MAX", "fmaxf(a, b)", "v", _EXPONENTIALS, "v - folded - logf(total)", 1024),
    38: ("l1_norm", "0.0f", "a + b", "fabsf(v)", "", "v * float(width) / folded", 512),
    39: ("l2_norm", "0.0f", "a + b", "v * v", "", "v * rsqrtf(folded)", 256),
}
_REDUCTIONS = {
    47: ("sum_columns", "best += v;", "best", "float", 8),
    48: ("mean_columns", "best += v;", "best / float(height)", "float", 4),
    49: ("max_columns", "best = fmaxf(best, v);", "best", "float", 8),
    51: ("argmax_columns", "if (v > best) { best = v; place = i; }", "place", "int64_t", 4),
    52: ("argmin_columns", "if (v < best) { best = v; place = i; }", "place", "int64_t", 2),
    53: ("min_columns", "best = fminf(best, v);", "best", "float", 4),
}
_MATMULS = {
    1: ("square_matmul", 32, False, False),
    2: ("matmul", 16, False, False),
    16: ("matmul_left_transposed", 16, True, False),
    17: ("matmul_right_transposed", 32, False, True),
    18: ("matmul_both_transposed", 8, True, True),
}


def cuda_kernels() -> dict[tuple[int, int], str]:
    """Give the sources by level and problem."""
    groups = (_elementwise(), _rows(), _reductions(), _matmuls(), _others())
    return {(1, number): source for group in groups for number, source in group}


def _module(cuda: str, function: str, parameters: str = "torch::Tensor x", **parts: str) -> str:
    """Fill a CUDA file's places with `parts` and wrap it into a module that answers a problem."""
    names = ", ".join(parameter.split()[-1] for parameter in parameters.split(", "))
    common = {"function": function, "parameters": parameters}
    text = Template((_FOLDER / f"{cuda}.cu").read_text("utf-8")).substitute({**parts, **common})
    fields = {"init": "pass", "inputs": names, "call": names, **parts, **common, "cuda": text.strip()}
    return Template((_FOLDER / "module.py.txt").read_text("utf-8")).substitute(fields)


def _elementwise() -> Iterator[tuple[int, str]]:
    plain = {"scalar": "", "scalar_parameter": "", "scalar_argument": ""}
    for number, (function, expression, threads) in _ELEMENTWISE.items():
        yield number, _module("elementwise", function, expression=expression, threads=str(threads), **plain)
    yield (
        5,
        _module(
            "elementwise",
            "scale",
            "torch::Tensor x, double s",
            expression="x * s",
            threads="256",
            scalar=", s",
            scalar_parameter=", float s",
            scalar_argument=", float(s)",
        ),
    )


def _rows() -> Iterator[tuple[int, str]]:
    for number, (function, start, join, term, second, result, threads) in _ROWS.items():
        parts = {"start": start, "join": join, "term": term, "result": result, "threads": str(threads)}
        yield number, _module("rows", function, second=second.format(threads), **parts)


def _reductions() -> Iterator[tuple[int, str]]:
    for number, (function, step, result, output, unroll) in _REDUCTIONS.items():
        parts = {"step": step, "result": result, "output": output, "unroll": str(unroll)}
        dtype = ".dtype(torch::kInt64)" if output == "int64_t" else ""
        kept = "1, " if number == 47 else ""
        yield (
            number,
            _module("reduction", function, threads=str(64 * unroll), kept=kept, dtype=dtype, **parts),
        )


def _matmuls() -> Iterator[tuple[int, str]]:
    for number, (function, tile, left_transposed, right_transposed) in _MATMULS.items():
        parts = {
            "tile": str(tile),
            "left": "int64_t(inner) * m + row" if left_transposed else "int64_t(row) * k + inner",
            "right": "int64_t(column) * k + outer" if right_transposed else "int64_t(outer) * n + column",
            "m": str(int(left_transposed)),
            "n": str(int(not right_transposed)),
        }
        yield number, _module("matmul", function, "torch::Tensor x, torch::Tensor w", **parts)


def _others() -> Iterator[tuple[int, str]]:
    yield 4, _module("matrix_vector", "matrix_vector", "torch::Tensor x, torch::Tensor w")
    yield 36, _module("channel_norm", "rms_norm", "torch::Tensor x, double eps", inputs="x", call="x, 1e-5")
    yield (
        40,
        _module(
            "layer_norm",
            "layer_norm",
            "torch::Tensor x, torch::Tensor weight, torch::Tensor bias",
            init="self.ln = nn.LayerNorm(*arguments)",
            inputs="x",
            call="x, self.ln.weight, self.ln.bias",
        ),
    )
