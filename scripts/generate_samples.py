"""Samples a model: `python scripts/generate_samples.py dataset_src=local level=1 run_name=my_run …`."""

import sys

from leaderboard.seed_scripts.generate_samples import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
