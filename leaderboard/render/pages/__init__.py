"""Pages and files of the site, one module a kind.

In: the site as prepared. Out: files. May import: parts and the site.
"""
