"""Samples and judges once: `python scripts/generate_and_eval_single_sample.py level=1 problem_id=19 …`."""

import sys

from leaderboard.seed_scripts.generate_and_eval_single_sample import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
