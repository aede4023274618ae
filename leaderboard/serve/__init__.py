"""The evaluation server `kbl serve`: a queue of judgements over HTTP, judged by processes that stay ready.

In: requests. Out: verdicts, metrics. May import: stages and below.
"""

MAX_BATCH = 1000
"""Judgements in one request."""

MAX_BATCH_BYTES = 64 * 2**20
"""Bytes of such a request."""

KEY_VARIABLE = "KBL_API_KEY"
"""Holds the API key, for the server and for who asks it."""

KEY = r"[!-~]*"
"""What an API key may be: what an HTTP header carries as it is."""
