"""Packs runs: `python scripts/combine_runs_to_submission.py --level1_run a --level2_run b …`."""

import sys

from leaderboard.seed_scripts.combine_runs_to_submission import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
