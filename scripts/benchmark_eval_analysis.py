"""Scores a run: `python scripts/benchmark_eval_analysis.py run_name=r level=1 hardware=H100 baseline=…`."""

import sys

from leaderboard.seed_scripts.benchmark_eval_analysis import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
