"""`kbl`, and `python -m leaderboard`."""

import signal


def run() -> None:
    """Load the commands and run the one that is asked for. Ctrl-C before that ends without a word."""
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    from leaderboard.cli import run as run_command

    signal.signal(signal.SIGINT, before)
    run_command()


if __name__ == "__main__":
    run()
