"""`python -m leaderboard` is `kbl`."""

from leaderboard.cli import run

if __name__ == "__main__":
    run()
