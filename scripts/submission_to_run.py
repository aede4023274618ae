"""Unpacks a submission: `python scripts/submission_to_run.py --submission submissions/mine.json`."""

import sys

from leaderboard.seed_scripts.submission_to_run import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
