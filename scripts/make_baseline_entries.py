"""Write the baseline entries: PyTorch as it stands, and compiled, in each precision of the boards.

Run it where `submissions/` lies. It takes no options.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from kernel_evaluator.problems.certificates import not_running
from kernel_evaluator.problems.problem_set import ProblemSet
from kernel_evaluator.records.keys import RANKED_LEVELS
from kernel_evaluator.records.rows import BOARD_PRECISIONS

from leaderboard.runs.baseline_runs import AUTOTUNED_ENDING, COMPILED_ENDING, EAGER_ENDING, reference_kernels

ENTRIES = {
    "pytorch-eager": ("PyTorch eager", EAGER_ENDING),
    "torch-compile": ("torch.compile", COMPILED_ENDING),
    "torch-compile-max-autotune": ("torch.compile max-autotune", AUTOTUNED_ENDING),
}


def main() -> None:
    """Write one submission an entry and precision: every problem whose reference runs in it."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    ranked = [p for p in ProblemSet() if p.level in RANKED_LEVELS]
    for precision in BOARD_PRECISIONS:
        failing = not_running(precision)
        problems = [p for p in ranked if f"{p.level}_{p.problem_id}" not in failing]
        for base, (name, ending) in ENTRIES.items():
            entry = base
            metadata = {"display_name": name, "organization": "PyTorch", "baseline": True, "license": "MIT"}
            if precision != BOARD_PRECISIONS[0]:
                entry, metadata["precision"] = f"{base}-{precision}", precision
            kernels = {str(key): source for key, source in reference_kernels(problems, ending).items()}
            text = json.dumps({"metadata": metadata, "kernels": kernels}, indent=2, ensure_ascii=False)
            Path("submissions", f"{entry}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
