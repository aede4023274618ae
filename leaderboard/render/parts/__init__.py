"""Parts of pages: figures, lines of tables, drawings, code.

In: standings and rows. Out: lines, HTML, geometry. May import: stages and below, not pages.
"""
