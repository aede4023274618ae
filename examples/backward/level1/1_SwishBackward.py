"""The gradient of a loss with respect to what Swish was given: a backward pass as a problem."""

import torch


class Model(torch.nn.Module):
    """Gives the gradient of `x * sigmoid(x)`, for the gradient that comes from above."""

    def forward(self, x: torch.Tensor, above: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            (found,) = torch.autograd.grad(x * torch.sigmoid(x), x, above)
        return found


def get_inputs() -> list[torch.Tensor]:
    """Draw what went forward, and what comes back."""
    return [torch.rand(64, 1024), torch.rand(64, 1024)]


def get_init_inputs() -> list[object]:
    """The module takes nothing."""
    return []
