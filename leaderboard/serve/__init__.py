"""The evaluation server `kbl serve`: a queue of judgements over HTTP, judged by the local engine.

In: requests. Out: verdicts, metrics. May import: nothing of the board.
"""
