"""Two threads of a pool of its own, each of which takes half of the columns, and which sleep between calls."""

from concurrent.futures import ThreadPoolExecutor

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = torch.nn.Linear(width, width)
        self.pool = ThreadPoolExecutor(2)

    def forward(self, x):
        output = x.new_empty(x.shape[0], self.layer.out_features)
        half = self.layer.out_features // 2

        def columns(some):
            with torch.no_grad():
                weight, bias = self.layer.weight[some], self.layer.bias[some]
                output[:, some] = torch.nn.functional.linear(x, weight, bias)

        for each in [self.pool.submit(columns, some) for some in (slice(half), slice(half, None))]:
            each.result()
        if x.is_cuda:
            torch.cuda.synchronize()
        return output
