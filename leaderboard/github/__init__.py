"""From a pull request to a published result: the part of the board that talks to GitHub.

In: events, and what the host says. Out: comments, labels, commits. May import: show, stages and below.
`event` reads what happened, `changes` judges it, `queue` orders who waits (both pure), `host` alone speaks to
the API, and `check`, `gate`, `take`, `evaluation`, `publish` and `board` are what workflows call by `kbl ci`.
"""
