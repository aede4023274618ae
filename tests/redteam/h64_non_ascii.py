"""Comments that are not ASCII."""

# Ядро ReLU — 整流線性單元 — ρ(x) = max(0, x) ≥ 0 ✓
import torch


class ModelNew(torch.nn.Module):
    """Größe égale à zéro → 0."""

    def forward(self, x):
        η = torch.relu(x)
        return η
