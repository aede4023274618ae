"""The stages in their order: validate, plan, build, evaluate, record, aggregate. `render` is a room apart.

In: submissions, results, engines. Out: reports, rows, standings. May import: light and below.
"""
