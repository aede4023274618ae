"""Write the baseline entries: PyTorch as it stands, and compiled. Usage: python scripts/make_baseline_entries.py"""

from __future__ import annotations

import json
from pathlib import Path

from kernelbench.keys import RANKED_LEVELS, KernelKey
from kernelbench.problems import ProblemSet

_COMPILED = '''

class ModelNew(Model):
    """The reference, compiled by torch.compile{how}."""

    def __init__(self, *args):
        super().__init__(*args)
        self.compile({arguments})
'''

ENTRIES = {
    "pytorch-eager": ("PyTorch eager", "\n\nModelNew = Model\n"),
    "torch-compile": ("torch.compile", _COMPILED.format(how="", arguments="")),
    "torch-compile-max-autotune": (
        "torch.compile max-autotune",
        _COMPILED.format(
            how=" with max-autotune, without CUDA graphs", arguments='mode="max-autotune-no-cudagraphs"'
        ),
    ),
}


def main() -> None:
    """Write one submission an entry, 250 kernels each."""
    for entry, (name, ending) in ENTRIES.items():
        metadata = {"display_name": name, "organization": "PyTorch", "baseline": True, "license": "MIT"}
        problems = [p for p in ProblemSet() if p.level in RANKED_LEVELS]
        kernels = {str(KernelKey(p.level, p.problem_id)): p.source.rstrip() + ending for p in problems}
        text = json.dumps({"metadata": metadata, "kernels": kernels}, indent=2, ensure_ascii=False)
        Path("submissions", f"{entry}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
