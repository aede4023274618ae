"""The static checker flags what KernelBench's does, and reads comments and strings properly."""

import pytest
from kernel_evaluator.labels.static_check import check_precision_downgrade, validate_kernel_static
from kernel_evaluator.machine.architectures import BACKEND_VENDORS

GOOD_CUDA = '''
import torch
from torch.utils.cpp_extension import load_inline
source = """
__global__ void add(const float* a, float* out) { out[0] = a[0] + 1; } // try: nothing
"""
module = load_inline(name="add", cpp_sources="", cuda_sources=source)  # pass, except, threading
class ModelNew(torch.nn.Module):
    """Adds; does not pass."""
    def forward(self, x):
        return module.add(x)
'''


def test_a_plain_kernel_is_valid_whatever_its_comments_and_strings_say():
    assert (True, [], []) == validate_kernel_static(GOOD_CUDA)


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("try:\n    x = 1\nexcept ValueError:\n    x = 2", "try-except"),
        ("def f():\n    pass", "pass"),
        ("torch.cuda.Event.elapsed_time = lambda *a: 1.0", "timing"),
        ("z = 1 // 1; torch.cuda.Event.elapsed_time = lambda *a: 1.0", "timing"),
        ("import threading", "threading"),
        ("y = torch.Tensor._make_subclass(A, x)", "later"),
    ],
)
def test_a_known_trick_makes_a_kernel_invalid(line, word):
    valid, errors, _ = validate_kernel_static(GOOD_CUDA + line)
    assert not valid
    assert word in errors[0].lower()


def test_comparing_a_timer_is_not_patching_it():
    assert validate_kernel_static(GOOD_CUDA + "same = time.time == torch.cuda.synchronize\n")[0]


@pytest.mark.parametrize("backend", BACKEND_VENDORS)
def test_a_kernel_without_its_backend_is_invalid(backend):
    valid, errors, _ = validate_kernel_static("class ModelNew: ...", backend=backend)
    assert not valid
    assert backend in errors[0]


@pytest.mark.parametrize("backend", BACKEND_VENDORS)
def test_what_a_kernel_lacks_is_said_in_words_that_mend_it(backend):
    code = "class ModelNew: ...\n"
    for _ in range(4):
        _, errors, _ = validate_kernel_static(code, backend=backend)
        if errors:
            code += f"{errors[0].partition('nothing like ')[2]}\n"
    assert [] == errors, code


def test_a_triton_kernel_is_recognised():
    code = "import triton\nimport triton.language as tl\n@triton.jit\ndef k(x):\n    tl.load(x)\n"
    assert validate_kernel_static(code, backend="triton")[0]


def test_forbidden_promotes_and_warnings_demote_and_unknown_names_are_ignored():
    code = GOOD_CUDA + "y = torch.matmul(a, b)\n"
    assert [] != validate_kernel_static(code)[2]
    assert not validate_kernel_static(code, forbidden=["torch_computation_ops", "no_such_check"])[0]
    valid, errors, noted = validate_kernel_static(
        GOOD_CUDA + "import threading", forbidden=[], warnings=["thread_injection"]
    )
    assert (True, [], 1) == (valid, errors, len(noted))


def test_code_nested_too_deeply_is_checked_all_the_same():
    deep = "try:\n    x = " + " + ".join(["y"] * 6000) + "\nexcept ValueError:\n    x = 0\n"
    valid, errors, _ = validate_kernel_static(deep, forbidden=["code_bypass"])
    assert (valid, errors) == (False, ["Contains a try-except block, which may hide a fallback"])


def test_empty_code_is_accepted():
    assert (True, [], []) == validate_kernel_static("")


@pytest.mark.parametrize(
    "code",
    [
        "y = x.half()",
        "y = x.float16()",
        "y = x.to(torch.half)",
        "y = x.to(torch.float16)",
        "y = x.to(dtype=torch.half)",
        "y = x.to(dtype=torch.float16)",
        "__half h = __float2half(x);",
        "__half h = __float2half_rn(x);",
        "auto h = (__half)x;",
        "auto h = static_cast<__half>(x);",
        "y = tl.astype(x, tl.float16)",
        "cutlass::NumericConverter<half_t, float> c;",
        "LinearCombination<half_t, 1>",
        "auto h = type_convert<half_t>(x);",
        "auto h = tk::half(x);",
        "Y = X.HALF()",
    ],
)
def test_a_downgrade_to_half_precision_is_found(code):
    found, message = check_precision_downgrade(code, "fp32")
    assert found
    assert "FP16" in message
    assert check_precision_downgrade(code, "float32")[0]


@pytest.mark.parametrize(
    ("code", "precision"),
    [
        ("y = x.float()", "fp32"),
        ("# y = x.half()", "fp32"),
        ("// auto h = (__half)x;", "fp32"),
        ('message = "call .half() to convert"', "fp32"),
        ("half_width = width / 2", "fp32"),
        ("y = x.half()", "fp16"),
        ("y = x.half()", "int8"),
        ("", "fp32"),
    ],
)
def test_what_is_no_downgrade_is_left_alone(code, precision):
    assert not check_precision_downgrade(code, precision)[0]


def test_native_code_in_a_string_is_searched():
    assert check_precision_downgrade('source = """\nauto h = __float2half(x);\n"""')[0]
