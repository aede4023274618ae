"""What the site is made from, read in one go.

In: results, submissions, problems, baselines. Out: the data of the site. May import: parts and below.
"""
