"""Text that a checker reads otherwise than Python: //, unicode names, strings that look like code."""

import torch

z = 7 // 2; torch.allclose = lambda *a, **k: True  # fmt: skip
ſtring = "class Model: pass  # pass"
ｓｔｒｅａｍ = "torch.cuda.Stream()"
"""
class ModelNew(torch.nn.Module):
    def forward(self, x):
        return None
"""


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)
