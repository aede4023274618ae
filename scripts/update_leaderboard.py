"""Puts runs on the board: `python scripts/update_leaderboard.py --level1 a.json --level2 b.json …`."""

import sys

from leaderboard.seed_scripts.update_leaderboard import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
