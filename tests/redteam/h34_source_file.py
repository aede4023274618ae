"""A C++ source written to a file and loaded."""

import os
import tempfile

import torch
from torch.utils.cpp_extension import load

folder = tempfile.mkdtemp()
path = os.path.join(folder, "relu.cpp")
with open(path, "w") as file:
    file.write("""
#include <torch/extension.h>
torch::Tensor run(torch::Tensor x) { return at::clamp_min(x, 0); }
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("run", &run); }
""")
extension = load(name="from_file", sources=[path])


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return extension.run(x)
