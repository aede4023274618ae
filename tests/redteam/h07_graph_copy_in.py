"""A CUDA graph: inputs are copied in, outputs cloned out."""

import torch


class ModelNew(torch.nn.Module):
    graph = None

    def forward(self, A, B):
        if self.graph is None:
            self.a, self.b = A.clone(), B.clone()
            torch.matmul(self.a, self.b)
            torch.cuda.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.c = torch.matmul(self.a, self.b)
        self.a.copy_(A)
        self.b.copy_(B)
        self.graph.replay()
        return self.c.clone()
