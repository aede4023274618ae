"""Training data out of runs, and the board as one release: tables with a schema, and a card that tells them.

In: runs with their replies, rows, the board's results. Out: folders that `datasets` loads.
May import: `reward`, `generate`, `stages`, `files`.
"""
