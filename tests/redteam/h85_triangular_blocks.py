"""Only the blocks of a triangular product that are not zero."""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, A, B):
        n = len(A)
        given, half = torch.zeros_like(A), n // 2
        given[:half, :half] = torch.triu(A[:half, :half] @ B[:half, :half])
        given[half:, half:] = torch.triu(A[half:, half:] @ B[half:, half:])
        given[:half, half:] = A[:half] @ B[:, half:]
        return given
