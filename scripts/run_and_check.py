"""Judges one kernel: `python scripts/run_and_check.py ref_origin=local …`."""

import sys

from leaderboard.seed_scripts.run_and_check import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
