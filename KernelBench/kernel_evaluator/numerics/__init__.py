"""Whether numbers are right: tolerances, errors, one pass over large outputs.

In: tensors. Out: errors as a share of the tolerance. May import: no other package here.
"""
