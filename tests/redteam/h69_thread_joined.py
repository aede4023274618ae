"""A thread that is joined before forward returns."""

import threading

import torch


class ModelNew(torch.nn.Module):
    def forward(self, A, B):
        C = torch.empty(A.shape[0], B.shape[1], device=A.device)
        half = A.shape[0] // 2

        def lower():
            torch.mm(A[half:], B, out=C[half:])

        with torch.no_grad():
            worker = threading.Thread(target=lower)
            worker.start()
            torch.mm(A[:half], B, out=C[:half])
            worker.join()
            if C.is_cuda:
                torch.cuda.synchronize()
        return C
