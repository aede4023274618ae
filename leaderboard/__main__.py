"""`python -m leaderboard` is `kbl`."""

from leaderboard.cli import app

app(prog_name="kbl")
