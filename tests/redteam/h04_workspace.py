"""Keeps a workspace for each shape."""

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim
        self.rooms = {}

    def forward(self, x):
        shape = (4, *[1 if i == self.dim else n for i, n in enumerate(x.shape)])
        if shape not in self.rooms:
            self.rooms[shape] = torch.empty(shape, device=x.device, dtype=x.dtype)
        room = self.rooms[shape]
        for at, part in enumerate(x.chunk(4, self.dim)):
            torch.sum(part, self.dim, keepdim=True, out=room[at])
        return room.sum(0)
