"""Judges a run: `python scripts/eval_from_generations.py dataset_src=local level=1 run_name=my_run`."""

import sys

from leaderboard.seed_scripts.eval_from_generations import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
