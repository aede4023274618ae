"""The board: validate, plan, build, evaluate, record, aggregate, render.

In: submissions and results. Out: standings, comments, the site. `stages` and `render` are the way of an
entry; the other rooms serve them.
"""
