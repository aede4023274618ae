"""KernelBench's static checker: patterns in a kernel's text that are worth a second look.

Advice for whoever writes kernels. It never rejects a submission: a verdict needs a number, not a pattern.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Callable, Sequence

FORBIDDEN_BY_DEFAULT = ("code_bypass", "timing_event_patch", "thread_injection", "lazy_eval")
"""Checks that make a kernel invalid unless the caller says otherwise; the backend's own is added."""

WARNED_BY_DEFAULT = ("pytorch_wrap", "torch_computation_ops", "stream_injection", "precision_downgrade")

_NN_ALLOWED = frozenset(
    re.findall(
        r"\w+",
        """Module ModuleList ModuleDict Sequential Parameter ParameterList ParameterDict Buffer
        UninitializedParameter init""",
    )
)
_TORCH_OPS = frozenset(
    re.findall(
        r"\w+",
        """mm bmm matmul addmm addbmm baddbmm einsum dot mv outer ger tensordot chain_matmul linalg conv1d
        conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d relu gelu silu sigmoid tanh softmax
        log_softmax logsumexp layer_norm batch_norm group_norm instance_norm dropout sum mean std var max min
        amax amin argmax argmin prod cumsum cumprod norm exp log sqrt rsqrt pow abs clamp where sort topk cat
        stack scaled_dot_product_attention cosine_similarity""",
    )
)

_GLOBAL = ("__global__", r"__global__")
_LOADER = ("load_inline or cpp_extension", r"load_inline|cpp_extension")
_BACKEND_NEEDS: dict[str, tuple[tuple[str, str], ...]] = {
    "cuda": (_GLOBAL, _LOADER),
    "hip": (_GLOBAL, _LOADER, ("hipcc", r"hipcc")),
    "triton": (("@triton.jit", r"@\s*(?:triton\.)?(?:jit|autotune)\b"), ("tl.load", r"\btl\.")),
    "gluon": (("@gluon.jit", r"@\s*gluon\.jit\b"), ("gl.load", r"\bgl\.|\bttgl\.")),
    "helion": (("@helion.kernel", r"@\s*helion\.(?:kernel|jit)\b"), ("hl.tile", r"\bhl\.")),
    "cutile": (
        ("@ct.kernel", r"@\s*(?:ct|cuda\.tile)\.kernel\b"),
        ("ct.launch", r"\bct\.launch\b|\btile\.launch\b"),
    ),
    "mathdx": (
        ("cublasdx, cufftdx, cusolverdx or curanddx", r"\b(?:cublasdx|cufftdx|cusolverdx|curanddx)\b"),
        _LOADER,
    ),
    "tvm-ffi": (_GLOBAL, ("tvm_ffi", r"\btvm_ffi\b")),
    "tilelang": (("@T.prim_func", r"@\s*T\.prim_func"),),
    "cute": (
        (
            "cute::, cutlass:: or import cutlass",
            r"\bcute::|\bcutlass::|\bfrom\s+cutlass\b|\bimport\s+cutlass\b",
        ),
    ),
    "thunderkittens": (
        ("the namespace kittens", r"\bkittens::|\bnamespace\s+kittens\b"),
        ("st_bf or rt_fl", r"\b[sr]t_|\b[sr]t<"),
    ),
}
"""What a kernel of a backend holds: in words, and as a pattern."""
_BACKEND_NEEDS["cutlass"] = _BACKEND_NEEDS["cute"]

_PATCHED = r"(?:torch\.cuda\.(?:Event(?:\.(?:record|elapsed_time))?|synchronize)|time\.(?:perf_counter|time))"

_FP16_PYTHON = (
    r"\.half\s*\(\s*\)",
    r"\.float16\s*\(\s*\)",
    r"\.to\s*\(\s*(?:dtype\s*=\s*)?torch\.(?:half|float16)\b",
    r"\btl\.astype\s*\([^)]*tl\.float16",
    r"\.to\s*\(\s*tl\.float16",
)
_FP16_NATIVE = (
    r"__float2half(?:_rn)?\b",
    r"\(\s*__half\s*\)",
    r"static_cast\s*<\s*__half\s*>",
    r"NumericConverter\s*<\s*(?:cutlass::)?half_t\s*,\s*float",
    r"LinearCombination\s*<\s*(?:cutlass::)?half_t",
    r"type_convert\s*<\s*(?:ck::)?half_t\s*>",
    r"\btk::half\s*\(",
)

Check = Callable[[str, str], str]
"""Takes the text without comments and the precision; gives the finding, or nothing."""


def validate_kernel_static(
    code: str,
    backend: str = "cuda",
    precision: str = "fp16",
    forbidden: Sequence[str] | None = None,
    warnings: Sequence[str] | None = None,
) -> tuple[bool, list[str], list[str]]:
    """Give `(valid, errors, warnings)` for a kernel, with KernelBench's checks, defaults and names.

    A check named in both lists is an error; unknown names are ignored; empty code is valid.
    """
    needs = f"{backend}_impl"
    errors_asked = list(forbidden) if forbidden is not None else [*FORBIDDEN_BY_DEFAULT, needs]
    warnings_asked = list(warnings) if warnings is not None else list(WARNED_BY_DEFAULT)
    if not code.strip():
        return True, [], []
    text = without_comments(code)
    errors = _findings(errors_asked, text, precision)
    noted = _findings([name for name in warnings_asked if name not in errors_asked], text, precision)
    return not errors, errors, noted


def check_precision_downgrade(code: str, precision: str = "fp32") -> tuple[bool, str]:
    """Say whether a kernel meant for fp32 converts to fp16, and how."""
    message = _precision_downgrade(without_comments(code), precision)
    return bool(message), message


def without_comments(code: str) -> str:
    """Drop Python comments, and C++ comments inside strings; text that is no Python is taken as C++."""
    try:
        tokens = [
            token._replace(string=_without_native_comments(token.string))
            if token.type in (tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", -1))
            else token
            for token in tokenize.generate_tokens(io.StringIO(code).readline)
            if token.type != tokenize.COMMENT
        ]
        ast.parse(code)
    except (tokenize.TokenError, SyntaxError, ValueError, RecursionError, MemoryError):
        return _without_native_comments(
            re.sub(r"(?m)^\s*#(?!\s*(?:include|define|if|pragma|else|endif)).*$", "", code)
        )
    return _join(tokens)


def _join(tokens: Sequence[tokenize.TokenInfo]) -> str:
    """Put tokens back on their lines; columns need not survive, the order and the line breaks do."""
    parts: list[str] = []
    end = (1, 0)
    for token in tokens:
        if token.start[0] > end[0]:
            parts.append("\n" * (token.start[0] - end[0]) + " " * token.start[1])
        elif token.start[1] > end[1]:
            parts.append(" ")
        parts.append(
            ""
            if token.type in (tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT)
            else token.string
        )
        end = token.end if token.type not in (tokenize.NEWLINE, tokenize.NL) else token.start
    return "".join(parts)


def _without_native_comments(text: str) -> str:
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)


def _without_strings(text: str) -> str:
    return re.sub(r"'''.*?'''|\"\"\".*?\"\"\"|'[^'\n]*'|\"[^\"\n]*\"", "''", text, flags=re.DOTALL)


def _findings(names: Sequence[str], text: str, precision: str) -> list[str]:
    found = (_CHECKS[name](text, precision) for name in names if name in _CHECKS)
    return [message for message in found if message]


def _code_bypass(text: str, precision: str) -> str:
    plain = _without_strings(text)
    if re.search(r"\btry\s*:|\bexcept\b", plain):
        return "Contains a try-except block, which may hide a fallback"
    return "Contains a pass statement" if re.search(r"\bpass\b", plain) else ""


def _timing_event_patch(text: str, precision: str) -> str:
    patched = re.search(rf"{_PATCHED}\s*=(?!=)", text)
    return f"Assigns to a timing function: {patched[0].rstrip('= ')}" if patched else ""


def _thread_injection(text: str, precision: str) -> str:
    pattern = r"\b(?:threading|multiprocessing|concurrent\.futures|ThreadPoolExecutor|ProcessPoolExecutor)\b"
    found = re.search(pattern, _without_strings(text))
    return f"Uses threading or multiprocessing: {found[0]}" if found else ""


def _lazy_eval(text: str, precision: str) -> str:
    pattern = r"_make_subclass|class\s+\w+\s*\(\s*(?:torch\.)?Tensor\s*\)|torch\.Tensor\.__new__"
    found = re.search(pattern, text)
    return f"May return a tensor that computes later: {found[0]}" if found else ""


def _pytorch_wrap(text: str, precision: str) -> str:
    names = set(re.findall(r"\b(?:torch\.)?nn\.([A-Z]\w*)", _without_strings(text))) - set(_NN_ALLOWED)
    return f"Uses PyTorch layers: {', '.join(sorted(names))}" if names else ""


def _torch_computation_ops(text: str, precision: str) -> str:
    plain = _without_strings(text)
    names = [name for name in re.findall(r"\btorch\.(\w+)", plain) if name in _TORCH_OPS]
    names += [f"F.{name}" for name in re.findall(r"\bF\.(\w+)", plain)]
    return f"Calls PyTorch operators: {', '.join(sorted(set(names)))}" if names else ""


def _stream_injection(text: str, precision: str) -> str:
    found = re.search(r"torch\.cuda\.(?:Stream|stream)\s*\(|\.wait_stream\s*\(", text)
    return f"Creates or waits for a stream: {found[0]}" if found else ""


def _precision_downgrade(text: str, precision: str) -> str:
    if precision.lower() not in ("fp32", "float32"):
        return ""
    plain = _without_strings(text)
    for pattern in _FP16_PYTHON:
        if found := re.search(pattern, plain, re.IGNORECASE):
            return f"FP32 is asked for, FP16 is used: {found[0]}"
    for pattern in _FP16_NATIVE:
        if found := re.search(pattern, text, re.IGNORECASE):
            return f"FP32 is asked for, FP16 is used: {found[0]}"
    return ""


def _backend_check(backend: str) -> Check:
    def check(text: str, precision: str) -> str:
        missing = [words for words, pattern in _BACKEND_NEEDS[backend] if not re.search(pattern, text)]
        return f"Missing {backend} implementation: nothing like {missing[0]}" if missing else ""

    return check


_CHECKS: dict[str, Check] = {
    "code_bypass": _code_bypass,
    "timing_event_patch": _timing_event_patch,
    "thread_injection": _thread_injection,
    "lazy_eval": _lazy_eval,
    "pytorch_wrap": _pytorch_wrap,
    "torch_computation_ops": _torch_computation_ops,
    "stream_injection": _stream_injection,
    "precision_downgrade": _precision_downgrade,
    **{f"{backend}_impl": _backend_check(backend) for backend in _BACKEND_NEEDS},
}
