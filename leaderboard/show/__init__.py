"""Records as text for people: tables, the comment on a pull request, progress on a terminal, plots.

In: standings and rows. Out: text and pictures. May import: stages and below.
"""
