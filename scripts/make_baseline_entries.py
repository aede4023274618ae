"""Write the baseline entries: PyTorch as it stands, and compiled. Run it where `submissions/` lies."""

from __future__ import annotations

import json
from pathlib import Path

from kernel_evaluator.problems.problem_set import ProblemSet
from kernel_evaluator.records.keys import RANKED_LEVELS

from leaderboard.runs.baseline_runs import AUTOTUNED_ENDING, COMPILED_ENDING, EAGER_ENDING, reference_kernels

ENTRIES = {
    "pytorch-eager": ("PyTorch eager", EAGER_ENDING),
    "torch-compile": ("torch.compile", COMPILED_ENDING),
    "torch-compile-max-autotune": ("torch.compile max-autotune", AUTOTUNED_ENDING),
}


def main() -> None:
    """Write one submission an entry, 250 kernels each."""
    for entry, (name, ending) in ENTRIES.items():
        metadata = {"display_name": name, "organization": "PyTorch", "baseline": True, "license": "MIT"}
        problems = [p for p in ProblemSet() if p.level in RANKED_LEVELS]
        kernels = {str(key): source for key, source in reference_kernels(problems, ending).items()}
        text = json.dumps({"metadata": metadata, "kernels": kernels}, indent=2, ensure_ascii=False)
        Path("submissions", f"{entry}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
