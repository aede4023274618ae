"""Text that strangers wrote: where its JSON values stand, and how it is parsed and shown without harm.

In: text. Out: positions, syntax trees, escaped text. May import: nothing else here.
"""
