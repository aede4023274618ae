"""`python -m leaderboard` is `kbl`."""

from leaderboard.cli import app

if __name__ == "__main__":
    app(prog_name="kbl")
