"""Times PyTorch itself: `python scripts/generate_baseline_time.py hardware_name=H100 levels=[1,2,3]`."""

import sys

from leaderboard.seed_scripts.generate_baseline_time import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
