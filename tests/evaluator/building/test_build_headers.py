import re
from pathlib import Path

import pytest
from compiling import as_candidate, build
from kernel_evaluator.building.builder import Builder, BuildStatus
from kernel_evaluator.building.headers import write_slim

torch = pytest.importorskip("torch")
INCLUDE = Path(torch.__file__).parent / "include"

KERNEL = '''
import torch
from torch.utils.cpp_extension import load_inline
ext = load_inline(name="blend", functions=["answer", "parts"], cpp_sources="""
torch::Tensor answer() {
  torch::NoGradGuard no_grad;
  auto x = torch::arange(6, torch::dtype(torch::kFloat32)).view({2, 3});
  auto y = torch::zeros_like(x);
  const float* in = x.data_ptr<float>();
  float* out = y.data_ptr<float>();
  for (int64_t i = 0; i < x.numel(); ++i) out[i] = in[i] * 2;
  return torch::cat({y + 1, x - y}, 0).sum(1, true).t().contiguous();
}
std::vector<torch::Tensor> parts(torch::Tensor x, c10::optional<double> scale) {
  TORCH_CHECK(x.dim() == 1, "x must be a vector, got ", x.sizes());
  return {x[0], x.slice(0, 1, x.size(0)) * scale.value_or(1.0)};
}
""")
'''
CALLS = """
first, rest = ext.parts(torch.tensor([1.0, 2.0, 3.0]), 10.0)
print("parts", first.item(), rest.tolist(), ext.parts(torch.ones(2), None)[1].dtype)
try:
    ext.parts(torch.ones(2, 2), None)
except RuntimeError as error:
    print("refused", str(error).splitlines()[0])
"""


@pytest.mark.timeout(900)  # a build has what other work leaves of the processors
def test_a_kernel_built_with_slim_headers_computes_what_it_says(tmp_path: Path) -> None:
    with Builder(cache_root=tmp_path / "cache", workers=1, arch="", timeout_s=800) as builder:
        built = build(builder, KERNEL)
    assert (built.status, built.headers) == (BuildStatus.BUILT, ("slim",)), built.log
    said = as_candidate(built.cache, KERNEL + CALLS, tmp_path).stdout
    assert "answer tensor([[  9.,  27.,  -3., -12.]])" in said
    assert "parts 1.0 [20.0, 30.0] torch.float32" in said
    assert "refused x must be a vector, got [2, 2]" in said


@pytest.mark.parametrize(
    "line",
    [
        "torch::nn::Linear layer(1, 2);",
        "auto x = torch::tensor({1.0});",
        "TORCH_LIBRARY(mine, m) {}",
        "#include <torch/script.h>",
        "x.index({torch::indexing::Slice()});",
        "auto o = torch::empty({1}, torch::requires_grad());",
    ],
)
def test_sources_that_need_more_get_the_full_headers(tmp_path: Path, line: str) -> None:
    assert write_slim(tmp_path, INCLUDE, cpp=line, cuda="") is None
    assert write_slim(tmp_path, INCLUDE, cpp="", cuda=line) is None


def test_the_tensor_keeps_the_methods_that_the_source_names(tmp_path: Path) -> None:
    write_slim(tmp_path, INCLUDE, cpp="x.softmax(1);", cuda="y.logsumexp(0);")
    body = (tmp_path / "ATen/core/TensorBody.h").read_text("utf-8")
    assert re.search(r"Tensor::softmax\(.*", body)
    assert re.search(r"Tensor::logsumexp\(.*", body)
    assert "cholesky" not in body
    assert "ATen/ops/softmax_ops.h" in (tmp_path / "ATen/MethodOperators.h").read_text("utf-8")


def test_headers_of_an_unknown_shape_are_left_alone(tmp_path: Path) -> None:
    body = tmp_path / "include/ATen/core/TensorBody.h"
    body.parent.mkdir(parents=True)
    body.write_text("class Tensor {};\n")
    assert write_slim(tmp_path / "slim", tmp_path / "include", cpp="", cuda="") is None
