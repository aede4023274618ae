"""The evaluation server `kbl serve`: a queue of judgements over HTTP, judged by processes that stay ready.

In: requests. Out: verdicts, metrics. May import: `stages`, `checks`.
"""
