"""Records that everything else speaks of: keys of kernels, result rows, which evaluator this is.

In: nothing of ours. Out: plain values. May import: no other package here.
"""
